// Samples of operators that move elements: reshapes, slices, rearrangements, repetitions, casts, choices.
#include "tests/conformance_samples/samples.h"

namespace gradc::testing {
namespace {

void addReshapes(std::vector<Sample> &list) {
  for (const char *attrs :
       {"shape=(4,6)", "shape=(-1,)", "shape=(0,-1)", "shape=(-2,1)", "shape=(-3,0)", "shape=(0,-3)",
        "shape=(-4,1,-1,-2)", "shape=(0,-4,3,-1,0)", "shape=(-1,0), reverse=True", "shape=(0,-3), reverse=True",
        "target_shape=(0,12)", "target_shape=(9,4,3), keep_highest=True"})
    list.push_back({"Reshape", attrs, {{2, 3, 4}}});
  list.push_back({"Reshape", "shape=(1,1,1)", {{1}}});
  list.push_back({"Reshape", "shape=(0,-1)", {{2, 0, 3}}});
  for (const char *attrs : {"axis=0", "axis=-1", "axis=1", "axis=-3", "axis=2"})
    list.push_back({"expand_dims", attrs, {{2, 3}}});
  list.push_back({"expand_dims", "axis=0", {{}}});
  list.push_back({"expand_dims", "axis=1", {{0}}});
  for (const char *attrs : {"", "axis=0", "axis=-1", "axis=(0,2)", "axis=()"})
    list.push_back({"squeeze", attrs, {{1, 2, 1, 3, 1}}});
  list.push_back({"squeeze", "", {{1, 1}}});
  list.push_back({"squeeze", "axis=1", {{0, 1}}});
  list.push_back({"squeeze", "axis=None", {{1, 2}}});
}

void addSlices(std::vector<Sample> &list) {
  for (const char *attrs :
       {"begin=(0,), end=(1,)", "begin=(None,1), end=(None,3)", "begin=(None,None,3), end=(2,None,0), step=(1,2,-1)",
        "begin=(-1,), end=(None,)", "begin=(None,None,None), end=(None,None,None), step=(None,None,-2)",
        "begin=(-9,), end=(9,), step=(-1,)", "begin=(0,1), end=(2,3), step=(1,9223372036854775807)",
        "begin=(1,0), end=(-5,9), step=(-1,2)", "begin=(), end=()",
        "begin=(None,-2,-3), end=(None,-9,-1), step=(2,-2,1)", "begin=(-2,9,5), end=(9,0,None), step=(3,-2,-3)",
        "begin=(0,None,9), end=(2,None,None)", "begin=(0,None,-9), end=(2,-1,-9), step=(1,-1,-1)",
        "begin=(0,-1,9223372036854775807), end=(2,None,0), step=(1,-1,-2)",
        "begin=(0,0,3), end=(2,3,0), step=(2,1,-9223372036854775808)"})
    list.push_back({"slice", attrs, {{2, 3, 4}}});
  list.push_back({"slice", "begin=(0,), end=(1,)", {{1}}});
  list.push_back({"slice", "begin=(1,), end=(2,)", {{3, 0}}});
  list.push_back({"slice", "begin=(0,), end=(2,)", {{0, 2}}});
  for (const char *attrs : {"axis=0, begin=1, end=None", "axis=-1, begin=-3, end=-1", "axis=1, begin=0, end=1",
                            "axis=2, begin=3, end=4", "axis=1, begin=0, end=3"})
    list.push_back({"slice_axis", attrs, {{2, 3, 4}}});
  list.push_back({"slice_axis", "axis=0, begin=0, end=1", {{1}}});
  list.push_back({"slice_axis", "axis=0, begin=1, end=2", {{2, 0}}});
  list.push_back({"slice_like", "", {{2, 3}, {1, 2}}});
  list.push_back({"slice_like", "axes=(0,)", {{3, 2}, {2, 5, 7}}});
  list.push_back({"slice_like", "axes=(0,-1)", {{2, 3, 4}, {1, 2, 3}}});
  list.push_back({"slice_like", "axes=(1,-2)", {{2, 3, 4}, {7, 2}}});
  list.push_back({"slice_like", "", {{1}, {1}}});
  list.push_back({"slice_like", "", {{2, 0}, {1, 0}}});
  for (const char *attrs :
       {"num_args=1, h_w=(2,3)", "num_args=1, h_w=(2,1), offset=(1,2)", "num_args=1, h_w=(1,2), center_crop=True",
        "num_args=1, h_w=(2,1), offset=(9,9), center_crop=True"})
    list.push_back({"Crop", attrs, {{2, 1, 3, 4}}});
  list.push_back({"Crop", "num_args=2, offset=(1,0)", {{1, 2, 3, 3}, {2, 1, 2, 2}}});
  list.push_back({"Crop", "num_args=2, center_crop=True", {{1, 1, 4, 3}, {1, 1, 1, 3}}});
  list.push_back({"Crop", "num_args=1, h_w=(1,1)", {{1, 1, 1, 1}}});
  list.push_back({"Crop", "num_args=1, h_w=(2,1), offset=(1,0)", {{0, 1, 3, 2}}});
}

void addSplits(std::vector<Sample> &list) {
  for (const char *attrs : {"num_outputs=3", "num_outputs=3, squeeze_axis=True", "num_outputs=2, axis=-1",
                            "num_outputs=1, axis=0", "num_outputs=2, axis=0, squeeze_axis=True"})
    list.push_back({"SliceChannel", attrs, {{2, 3, 4}}});
  list.push_back({"SliceChannel", "num_outputs=1, axis=0", {{1}}});
  list.push_back({"SliceChannel", "num_outputs=2", {{0, 4}}});
  for (const char *attrs : {"indices=(0,1,3)", "indices=(0,), axis=0", "indices=(0,0,2), axis=-1",
                            "indices=(0,1), axis=0, squeeze_axis=True", "indices=(), sections=3",
                            "indices=(5,1), sections=3, axis=-1", "indices=(), sections=3, squeeze_axis=True"})
    list.push_back({"_split_v2", attrs, {{2, 3, 4}}});
  list.push_back({"_split_v2", "indices=(0,1)", {{0, 4}}});
  for (const char *attrs : {"num_args=2", "num_args=2, axis=1", "num_args=2, axis=-1", "num_args=2, axis=-3"})
    list.push_back({"stack", attrs, {{2, 3}, {2, 3}}});
  list.push_back({"stack", "num_args=1", {{}}});
  list.push_back({"stack", "num_args=3, axis=1", {{0}, {0}, {0}}});
}

void addRearrangements(std::vector<Sample> &list) {
  for (const char *attrs : {"", "axes=(0,1,2)", "axes=(2,0,1)", "axes=(1,2,0)", "axes=(0,2,1)"})
    list.push_back({"transpose", attrs, {{2, 3, 4}}});
  list.push_back({"transpose", "", {{1}}});
  list.push_back({"transpose", "", {{2, 0}}});
  for (const char *attrs : {"dim1=0, dim2=2", "dim1=-1, dim2=-2", "dim1=1, dim2=1", ""})
    list.push_back({"SwapAxis", attrs, {{2, 3, 4}}});
  list.push_back({"SwapAxis", "dim1=0, dim2=1", {{0, 2}}});
  for (const char *attrs : {"axis=0", "axis=(0,2)", "axis=-1", "axis=()", "axis=(1,1)"})
    list.push_back({"reverse", attrs, {{2, 3, 4}}});
  list.push_back({"reverse", "axis=0", {{0, 2}}});
  for (const char *attrs :
       {"repeats=2", "repeats=2, axis=0", "repeats=3, axis=-1", "repeats=1, axis=1", "repeats=0, axis=0"})
    list.push_back({"repeat", attrs, {{2, 3}}});
  list.push_back({"repeat", "repeats=4", {{}}});
  list.push_back({"repeat", "repeats=2, axis=1", {{2, 0}}});
  for (const char *attrs : {"reps=(2,)", "reps=(2,1,3)", "reps=(1,2)", "reps=()", "reps=(2,2)"})
    list.push_back({"tile", attrs, {{2, 3}}});
  list.push_back({"tile", "reps=(2,2)", {{}}});
  list.push_back({"tile", "reps=(2,2)", {{2, 0}}});
}

void addRepetitions(std::vector<Sample> &list) {
  for (const char *attrs :
       {"axis=0, size=2", "axis=(0,2), size=(2,4)", "axis=-1, size=3", "axis=2, size=1", "axis=(), size=()"})
    list.push_back({"broadcast_axis", attrs, {{1, 3, 1}}});
  list.push_back({"broadcast_axis", "axis=1, size=2", {{0, 1}}});
  for (const char *attrs : {"shape=(2,3,4)", "shape=(0,3,0)", "shape=(2,0,1)", "shape=(1,3,1)", "shape=(1,0,5)"})
    list.push_back({"broadcast_to", attrs, {{1, 3, 1}}});
  list.push_back({"broadcast_to", "shape=(0,3)", {{0, 1}}});
  for (const char *attrs :
       {"mode=constant, pad_width=(0,0,0,0,1,2,0,1), constant_value=3", "mode=edge, pad_width=(0,0,0,0,2,1,1,4)",
        "mode=reflect, pad_width=(0,0,0,0,1,1,2,0)", "mode=constant, pad_width=(0,0,0,0,0,0,0,0)"})
    list.push_back({"Pad", attrs, {{1, 2, 2, 3}}});
  list.push_back({"Pad", "mode=edge, pad_width=(0,0,0,0,3,1,0,2)", {{2, 1, 1, 2}}});
  list.push_back({"Pad", "mode=reflect, pad_width=(0,0,0,0,0,2,3,3)", {{2, 1, 3, 4}}});
  list.push_back({"Pad", "mode=reflect, pad_width=(0,0,0,0,1,0,0,1,1,1)", {{1, 1, 2, 2, 2}}, 2});
}

void addChoices(std::vector<Sample> &list) {
  for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 3}, {}, {0, 2}, {1}})
    for (const char *attrs : {"dtype=float64", "dtype=float32"}) list.push_back({"Cast", attrs, {shape}});
  list.push_back({"where", "", {{2, 3}, {2, 3}, {2, 3}}});
  list.push_back({"where", "", {{3}, {3, 2}, {3, 2}}});
  list.push_back({"where", "", {{1}, {1}, {1}}});
  list.push_back({"where", "", {{4}, {4}, {4}}});
  list.push_back({"where", "", {{0, 2}, {0, 2}, {0, 2}}});
}

}  // namespace

std::vector<Sample> movementSamples() {
  std::vector<Sample> list;
  addReshapes(list);
  addSlices(list);
  addSplits(list);
  addRearrangements(list);
  addRepetitions(list);
  addChoices(list);
  return list;
}

}  // namespace gradc::testing
