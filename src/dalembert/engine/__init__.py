"""What makes it run: Newton's iteration, the time loop, compilation, initial values. No method is known by name here."""
