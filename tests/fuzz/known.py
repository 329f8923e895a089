"""Seeds that were violations once; they belong to the generator as it is, and are looked for anew where that changes."""

FOUND = (
    1703, 1763, 2266, 2674, 2695, 3006, 10551, 11368, 11640, 13492, 15173, 20854, 22821, 200804, 201201, 204493, 300700, 302920,
    501205, 502416, 507018, 522714, 524509, 527949, 543028, 559210, 582498, 583532,
)  # fmt: skip

# seeds that are violations still, with the reason; the test fails when one is cured
KNOWN: dict[int, str] = {}

# the methods that seeds below NEW draw from, in this order: a method that is added does not change the cases that were found
NEW = 100_000
FIRST = (
    "composition", "gauss", "radau-iia", "lobatto-iiic", "lobatto-iiia", "radau-ia", "lobatto-iiib", "lobatto-iiic*",
    "lobatto-iiid", "lobatto-pair", "rattle", "shake", "murua", "murua-ggl", "spark", "srk-gauss", "srk-radau-ia",
    "energy-momentum", "energy-momentum-ggl", "midpoint", "discrete-gradient", "ddr", "gradient-pair", "euler",
    "explicit-midpoint", "heun", "ralston", "rk3", "heun3", "ralston3", "ssprk3", "rk4", "ralston4", "rk38",
    "variational", "cortes-martinez", "mclachlan-perlmutter", "rk45", "dop853", "radau", "bdf", "baumgarte", "projection",
    "coordinate-partition",
)  # fmt: skip
