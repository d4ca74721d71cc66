"""Flags of libraries, and what a library adds to its copts and deps for the header that is precompiled with them."""

# Kernels: loops are vectorised, and nobody looks at errno or at exceptions of the floating-point unit.
LOOPS = ["-O3", "-fno-math-errno", "-fno-trapping-math"]

FLAGS = {
    "plain": [],
    "fast": ["-O3"],
    "loops": LOOPS,
    "parallel": LOOPS + ["-fopenmp"],
    # Tests check what they assume; optimizing them costs more than it saves.
    "tests": ["-O1", "-UNDEBUG"],
}

# With --define=precompiled=off the compiler parses the headers, and finds sources that do not include what they use.
def precompiled_copts(name):
    return FLAGS[name] + select({
        "//third_party/precompiled:off": [],
        "//conditions:default": ["-include", "third_party/precompiled/" + name + ".h"],
    })

def precompiled_deps(name):
    return select({
        "//third_party/precompiled:off": [],
        "//conditions:default": ["//third_party/precompiled:" + name],
    })
