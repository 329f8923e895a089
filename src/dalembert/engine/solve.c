        /* solve $k: the rule for stopping is that of newton.py, word by word */
        if (DA_RARELY(looking)) { $store weigh$k(w + DA_RARE_WORK, state, $known, 0, par, u, 0, t, h, scale + $offset); }
        $step
        $unknowns
        {
            $constants
            double previous = 1;
            int look = looked;
            long count = 0;
            $guess
        renew$k:
            count++;
            {
                $change
                $leave
                $renew
            }
            if (count == 1) {
                single$k = 0;
                if (size <= limits.tolerance) goto judged$k;
                if (limits.max_iterations < 2) { failed = $k; goto end; }
                previous = size;
                if (size <= limits.refresh || $linear) goto update$k;
                look = look || !(size <= 1.0);
                goto renew$k;
            }
        judge$k:
            if (size * size <= limits.tolerance * previous || size <= limits.tolerance) goto settled$k;
            if (!(size < 1e300)) { failed = $k; goto end; }
            if (size > limits.stagnation * previous && size <= limits.floor) { look = 1; goto settled$k; }
            if (count >= limits.max_iterations) { failed = $k; goto end; }
            if (size > limits.refresh * previous && !$linear) {
                look = look || size > previous || size > limits.refresh;
                previous = size;
                goto renew$k;
            }
            previous = size;
        update$k:
            count++;
            {
                $update
            }
            goto judge$k;
        settled$k:
            single$k = $linear && count == 2 && size <= limits.exact;
        judged$k:
            if (DA_RARELY(look)) {
                looked = 1; /* what follows from a solution that is out of the ordinary is looked at as well */
                const double found[] = {$found 0};
                $store
                size = accept$k(w + DA_RARE_WORK, state, $known, found, par, u, scale + $offset, t, h);
                if (!(size <= limits.limit)) { failed = $k; goto end; }
            }
        done$k:
            iterations += count;
        }
