"""Which sources of tests make which program: those of a folder are one, tests/x/y is //tests:x_y_tests, apart from these.
tests/binaries.py reads this file as Python."""

# What they check is of the whole process, so they are programs of their own, named as their source: //tests:foo_test.
ALONE = {
    # The time of growing work: beside others, which take the caches, it grows faster. These run alone, last.
    "time": [
        "block_scale_test",
        "gradient_scale_test",
        "imperative_edges_test",
        "machine_memory_test",
        "npz_open_test",
        "scale_arrays_test",
        "scale_axes_test",
        "scale_test",
        "session_memory_test",
        "unroll_names_test",
    ],
    # The heap, which they count or replace.
    "heap": [
        "allocation_run_test",
        "allocation_test",
        "executor_test",
        "imperative_allocation_test",
        "imperative_cache_test",
        "imperative_failures_test",
        "imperative_memory_test",
        "imperative_steady_test",
        "lifetime_test",
    ],
    # Its resident memory.
    "memory": [
        "checkpoint_test",
        "imperative_growth_test",
        "imperative_long_test",
        "loop_run_test",
    ],
    # Its threads and stacks, and the signals that end it.
    "threads": [
        "imperative_deep_test",
        "imperative_threads_test",
        "large_kernels_test",
        "threads_test",
    ],
    # Many cases: they run beside each other.
    "cases": [
        "block_hostile_test",
        "conformance_test",
        "differential_test",
        "hostile_test",
        "long_sums_test",
    ],
    # They are linked with what the fuzz target does.
    "fuzz": [
        "array_files_test",
        "fuzz_corpus_test",
        "fuzz_programs_test",
    ],
    # `./dev golden` runs it.
    "golden": ["golden_test"],
}

def program_of(source):
    """The program of the source, a path from tests/."""
    folder, _, name = source.rpartition("/")
    name = name[:-len(".cc")]
    if not folder or any([name in names for names in ALONE.values()]):
        return name
    return folder.replace("/", "_") + "_tests"
