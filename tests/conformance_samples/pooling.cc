// Samples of pooling.
#include "tests/conformance_samples/samples.h"

namespace gradc::testing {

std::vector<Sample> poolingSamples() {
  std::vector<Sample> list;
  list.push_back({"Pooling", "kernel=(2,2)", {{2, 2, 3, 4}}});
  list.push_back({"Pooling", "kernel=(2,2), stride=(2,2), pool_type=max", {{1, 2, 4, 4}}});
  list.push_back(
      {"Pooling", "kernel=(3,3), stride=(2,2), pad=(1,1), pool_type=max, pooling_convention=full", {{1, 1, 5, 4}}});
  list.push_back(
      {"Pooling", "kernel=(2147483647,2147483647), pad=(1073741823,1073741823), pool_type=avg", {{1, 1, 1, 1}}});
  list.push_back({"Pooling", "kernel=(3,), pad=(1,), stride=(2,), pool_type=max", {{2, 1, 6}}});
  list.push_back({"Pooling", "kernel=(2,2,1), pool_type=max", {{1, 1, 3, 2, 2}}});
  list.push_back({"Pooling", "kernel=(2,2), pool_type=max, global_pool=True", {{2, 2, 3, 3}}});
  list.push_back({"Pooling", "kernel=(2,2), pool_type=max, layout=NHWC", {{1, 3, 4, 2}}});
  list.push_back({"Pooling", "kernel=(1,1), pool_type=max", {{1, 1, 1, 1}}});
  for (const char *attrs :
       {"kernel=(2,2), stride=(2,2), pool_type=avg", "kernel=(3,2), pad=(1,1), pool_type=avg",
        "kernel=(3,3), stride=(2,2), pad=(1,1), pool_type=avg, count_include_pad=False",
        "kernel=(3,3), stride=(2,2), pool_type=avg, pooling_convention=full", "pool_type=avg, global_pool=True",
        "kernel=(2,2), pool_type=sum", "kernel=(2,2), pool_type=sum, global_pool=True"})
    list.push_back({"Pooling", attrs, {{2, 2, 5, 4}}});
  for (const char *attrs : {"kernel=(2,2), pool_type=lp, p_value=1", "kernel=(2,2), pool_type=lp, p_value=2",
                            "kernel=(2,2), pool_type=lp, p_value=3, stride=(2,2)"})
    list.push_back({"Pooling", attrs, {{1, 2, 3, 4}}, 3, 0.4, 1.6});
  return list;
}

}  // namespace gradc::testing
