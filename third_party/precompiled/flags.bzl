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

# Under a sanitizer what takes longest is to compile what it adds: little is optimized, and of tests, whose loops are not
# in question, only their memory is checked.
def sanitizer_copts(name):
    return select({
        "//third_party/precompiled:asan": ["-O0", "-fno-sanitize=undefined,float-cast-overflow"] if name == "tests" else ["-O1"],
        "//third_party/precompiled:tsan": ["-O0"],
        "//conditions:default": [],
    })

# With --define=precompiled=off the compiler parses the headers, and finds sources that do not include what they use.
def precompiled_copts(name):
    return FLAGS[name] + sanitizer_copts(name) + select({
        "//third_party/precompiled:off": [],
        "//conditions:default": ["-include", "third_party/precompiled/" + name + ".h"],
    })

def precompiled_deps(name):
    return ["//third_party:compiler_lists"] + select({
        "//third_party/precompiled:off": [],
        "//conditions:default": ["//third_party/precompiled:" + name],
    })
