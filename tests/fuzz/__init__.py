"""Random cases: a seed makes a system, a method and a call; what comes of it is right, or an error of ours, or a violation.

python -m tests.fuzz --cases 100000 --seed 0 --jobs 2
python -m tests.fuzz --replay 4711
"""
