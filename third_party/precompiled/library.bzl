load(":flags.bzl", "precompiled_copts", "precompiled_deps")

def product_library(name, flags, deps = [], exclude = [], **kwargs):
    """A folder of the product with all that lies below it, except packages: a library `name`, compiled with the flags of
    that name in flags.bzl, and `sources`, which tests of the sources read."""
    native.filegroup(
        name = "sources",
        srcs = native.glob(["**/*.cc", "**/*.def", "**/*.h"]),
    )
    native.cc_library(
        name = name,
        srcs = native.glob(["**/*.cc"], exclude = exclude),
        hdrs = native.glob(["**/*.def", "**/*.h"]),
        copts = precompiled_copts(flags),
        deps = deps + ["@llvm//:support"] + precompiled_deps(flags),
        **kwargs
    )
