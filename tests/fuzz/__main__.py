"""Any number of cases, by hand."""

import argparse
import collections
import multiprocessing
import time

from .judge import judge
from .known import KNOWN


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed; the others follow")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--replay", type=int, help="one seed, told in full")
    given = parser.parse_args()
    if given.replay is not None:
        verdict = judge(given.replay)
        print(verdict.kind, verdict.told)
        return verdict.kind == "violation"
    begun, counts, found = time.time(), collections.Counter(), []
    seeds = range(given.seed, given.seed + given.cases)
    with multiprocessing.get_context("forkserver").Pool(given.jobs) as pool:
        for done, verdict in enumerate(pool.imap_unordered(judge, seeds, chunksize=20), 1):
            counts[verdict.kind] += 1
            if verdict.kind == "violation":
                found.append(verdict)
                known = KNOWN.get(verdict.seed)
                print(f"{verdict.seed}: {f'known ({known}) ' if known else ''}{verdict.told}", flush=True)
            if done % 1000 == 0:
                print(f"# {done} of {given.cases} in {time.time() - begun:.0f} s: {dict(counts)}", flush=True)
    print(f"# {dict(counts)}; violations: {sorted(v.seed for v in found)}")
    return bool([v for v in found if v.seed not in KNOWN])


if __name__ == "__main__":
    raise SystemExit(main())
