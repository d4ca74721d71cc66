"""The same for windows that slide over images."""

from .graphs import MOST, Graph, case, fine, one, refused, tuple_text, unreadable

HALF = 2**62


def windows():
    side = 2147483647
    conv = {"kernel": "(1,1)", "num_filter": 2, "no_bias": "True"}
    small = (1, 1, 3, 3)
    for op in ["Convolution", "Deconvolution"]:
        yield refused(op + "-image", one(op, conv, [(1, 1, MOST, MOST), None]))
        yield refused(
            op + "-kernel",
            one(op, {**conv, "kernel": tuple_text((side, side)), "dilate": tuple_text((side, side))}, [small, None]),
        )
        yield case(op + "-empty-image", one(op, conv, [(0, 1, MOST, MOST), None]))
        yield case(op + "-empty-pad", one(op, {**conv, "pad": "(1,1)"}, [(0, 1, MOST, 1), None]))
        yield refused(op + "-filters", one(op, {**conv, "num_filter": HALF}, [small, None]))
        yield refused(op + "-groups", one(op, {**conv, "num_filter": HALF, "num_group": HALF}, [small, None]))
        yield refused(op + "-groups-4", one(op, {**conv, "num_filter": HALF, "num_group": 4}, [(1, 4, 3, 3), None]))
        yield refused(op + "-one-axis", one(op, {**conv, "kernel": "(1,)", "num_filter": HALF + 1}, [(1, 1, 4), None]))
        yield refused(
            op + "-three-axes", one(op, {**conv, "kernel": "(1,1,1)", "num_filter": HALF + 1}, [(1, 1, 2, 2, 2), None])
        )
        yield case(op + "-weight-channels", one(op, {**conv, "num_group": 4}, [(1, -1, 3, 3), (2, HALF, 1, 1)]))
        yield unreadable(op + "-pad-beyond", one(op, {**conv, "pad": "(2147483648,0)"}, [small, None]))
        yield refused(
            op + "-channels-last", one(op, {**conv, "layout": "NHWC", "num_filter": HALF + 1}, [(1, 3, 3, 1), None])
        )
    yield refused(
        "Convolution-pad", one("Convolution", {**conv, "pad": tuple_text((side, side))}, [(4, 1, 2, 2), None])
    )
    yield refused(
        "Convolution-pad-1d",
        one(
            "Convolution", {**conv, "kernel": "(1,)", "pad": tuple_text((side,)), "num_filter": HALF}, [(1, 1, 2), None]
        ),
    )
    yield refused(
        "Convolution-pad-3d",
        one("Convolution", {**conv, "kernel": "(1,1,1)", "pad": tuple_text((side,) * 3)}, [(1, 1, 1, 1, 1), None]),
    )
    yield refused(
        "Deconvolution-stride", one("Deconvolution", {**conv, "stride": tuple_text((side, side))}, [(1, 1, 9, 9), None])
    )
    for rows in [HALF + 1, 2**61, MOST]:
        yield case(
            "Deconvolution-empty-%d" % rows, one("Deconvolution", {**conv, "stride": "(4,4)"}, [(0, 1, rows, 1), None])
        )
    yield refused(
        "Deconvolution-target",
        one("Deconvolution", {**conv, "target_shape": tuple_text((side, side)), "num_filter": HALF}, [small, None]),
    )
    pool = {"kernel": "(2,2)", "pool_type": "max"}
    for convention in ["valid", "full"]:
        yield refused(
            "Pooling-pad-" + convention,
            one("Pooling", {**pool, "pooling_convention": convention, "pad": tuple_text((side, side))}, [small]),
        )
        yield case(
            "Pooling-empty-pad-" + convention,
            one("Pooling", {**pool, "pooling_convention": convention, "pad": "(1,1)"}, [(0, 1, MOST, MOST)]),
        )
    yield case(
        "Pooling-same-empty",
        one(
            "Pooling", {**pool, "pooling_convention": "same", "stride": tuple_text((side, side))}, [(0, 1, MOST, MOST)]
        ),
    )
    yield case(
        "Pooling-full-empty",
        one(
            "Pooling", {**pool, "pooling_convention": "full", "stride": tuple_text((side, side))}, [(0, 1, MOST, MOST)]
        ),
    )
    yield refused("Pooling-kernel", one("Pooling", {**pool, "kernel": tuple_text((side, side))}, [small]))
    yield refused("Pooling-same-image", one("Pooling", {**pool, "pooling_convention": "same"}, [(1, 1, MOST, 2)]))
    yield case("Pooling-global-empty", one("Pooling", {"global_pool": "True", "pool_type": "avg"}, [(1, 1, 0, MOST)]))
    yield refused(
        "AdaptiveAvgPooling", one("_contrib_AdaptiveAvgPooling2D", {"output_size": tuple_text((side, side))}, [small])
    )
    yield case(
        "AdaptiveAvgPooling-empty",
        one("_contrib_AdaptiveAvgPooling2D", {"output_size": tuple_text((side, side))}, [(0, 1, 3, 3)]),
    )
    yield refused("BilinearResize", one("_contrib_BilinearResize2D", {"height": side, "width": side}, [small]))
    yield case(
        "BilinearResize-empty", one("_contrib_BilinearResize2D", {"height": side, "width": side}, [(0, 1, 3, 3)])
    )
    yield case(
        "BilinearResize-empty-channels", one("_contrib_BilinearResize2D", {"height": side, "width": 1}, [(4, 0, 3, 3)])
    )
    for scale in ["1e300", "inf", "nan", "1e-300", "0"]:
        yield case(
            "BilinearResize-scale-" + scale,
            one("_contrib_BilinearResize2D", {"scale_height": scale, "scale_width": 1}, [small]),
        )
        yield case(
            "BilinearResize-odd-" + scale,
            one(
                "_contrib_BilinearResize2D", {"mode": "odd_scale", "scale_height": scale, "scale_width": scale}, [small]
            ),
        )
    up = {"scale": 1000, "sample_type": "nearest", "num_args": 1}
    yield refused("UpSampling-rows", one("UpSampling", up, [(1, 1, 2**50, 4)]))
    for rows in [HALF - 1, MOST // 1000 + 1, MOST]:
        yield case("UpSampling-empty-%d" % rows, one("UpSampling", up, [(0, 1, rows, 4)]))
    two = {"scale": 1, "sample_type": "nearest", "num_args": 2}
    yield case("UpSampling-empty-channels", one("UpSampling", two, [(0, MOST, 2, 2), (0, MOST, 2, 2)]))
    yield case("UpSampling-empty-other", one("UpSampling", two, [(0, 1, 4, 4), (0, 1, 0, 0)]))
    yield refused(
        "UpSampling-bilinear",
        one(
            "UpSampling",
            {"scale": 2, "sample_type": "bilinear", "num_args": 2, "num_filter": MOST},
            [(1, -1, 2, 2), None],
        ),
    )
    yield refused(
        "UpSampling-filters",
        one(
            "UpSampling",
            {"scale": 2, "sample_type": "bilinear", "num_args": 2, "num_filter": 2**60},
            [(1, 1, 2, 2), None],
        ),
    )
    # The window is far larger than the image, and holds more places than 64 bits count.
    far = tuple_text((side,) * 3)
    g = Graph()
    g.op(
        "Pooling",
        [g.var((1, 1, 3, 3, 3), None, "1e30")],
        {"kernel": far, "pad": far, "stride": far, "pool_type": "avg"},
    )
    yield fine("Pooling-mean-of-many", g.json(), (1, 1, 2, 2, 2), values="0 340.8 2726.3")


CLASSES = {"windows": windows}
