            /* solve $k, as in solve.c: all lanes that are not done make one iteration a round; of a pair of steps (pair.c) nothing
               is looked at, what is out of the ordinary ends both */
#if !DA_PAIR
            if (looking)
                for (int e = 0; e < DA_W; e++) {
                    $gather
                    weigh$k(w, state_of, known_of, 0, par_of[e], u_of[e], 0, t_, h0, scale_of);
                    for (int j = 0; j < $sizes; j++) scale[$offset + j][e] = scale_of[j];
                }
#endif
            $step
            $unknowns
            {
                $constants
                W previous = da_wide(1), size = da_wide(0);
                I look = looked, active = alive, fresh = alive, turn = (I){0};
                long count = 0;
                $guess
                for (;;) {
                    count++;
                    iterations -= active;
                    if (count == 1 || da_any(fresh)) {
                        $change
                        $leave
                        $renew
                    }
                    if (count > 1 && da_any(turn)) {
                        $update
                    }
                    I bad = (I){0};
                    if (count == 1) {
                        single$k &= ~active;
                        active &= ~(I)(size <= da_wide(limits.tolerance));
                        if (limits.max_iterations < 2) { bad = active; active = (I){0}; }
                        previous = da_pick(active, size, previous);
                        turn = $linear ? active : active & (I)(size <= da_wide(limits.refresh));
                        fresh = active & ~turn;
                        look |= fresh & ~(I)(size <= da_wide(1.0));
                    } else {
                        const I ended = active & ((I)(size * size <= da_wide(limits.tolerance) * previous) | (I)(size <= da_wide(limits.tolerance)));
                        bad = active & ~ended & ~(I)(size < da_wide(1e300));
                        const I still = active & ~ended & ~bad & (I)(size > da_wide(limits.stagnation) * previous) & (I)(size <= da_wide(limits.floor));
                        const I over = ended | still;
                        look |= still;
                        if ($linear) single$k = (single$k & ~over) | (count == 2 ? over & (I)(size <= da_wide(limits.exact)) : (I){0});
                        active &= ~(over | bad);
                        if (count >= limits.max_iterations) { bad |= active; active = (I){0}; }
                        fresh = $linear ? (I){0} : active & (I)(size > da_wide(limits.refresh) * previous);
                        look |= fresh & ((I)(size > previous) | (I)(size > da_wide(limits.refresh)));
                        previous = da_pick(active, size, previous);
                        turn = active & ~fresh;
                    }
#if DA_PAIR
                    if (da_any(bad)) return -1;
#else
                    if (da_any(bad)) {
                        for (int e = 0; e < DA_W; e++)
                            if (bad[e] && group + e < members) failed[member[e]] = $k;
                        alive &= ~bad;
                    }
#endif
                    if (!da_any(active)) break;
                }
#if DA_PAIR
                if (da_any(look)) return -1;
#else
                look &= alive;
                if (da_any(look))
                    for (int e = 0; e < DA_W; e++) {
                        if (!look[e]) continue;
                        double found[$own + 1];
                        $gather
                        $found
                        for (int j = 0; j < $sizes; j++) scale_of[j] = scale[$offset + j][e];
                        looked[e] = -1;
                        if (!(accept$k(w, state_of, known_of, found, par_of[e], u_of[e], scale_of, t_, h0) <= limits.limit)) {
                            if (group + e < members) failed[member[e]] = $k;
                            alive[e] = 0;
                        }
                    }
#endif
            }
