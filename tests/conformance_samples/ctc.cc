// Samples of CTCLoss and of its gradient as an operator: blanks first and last, lengths, repeated labels, one step,
// none.
#include "tests/conformance_samples/samples.h"

namespace gradc::testing {

std::vector<Sample> ctcSamples() {
  std::vector<Sample> list;
  const char *op = "CTCLoss", *last = "blank_label=last";
  const char *dataLengths = "use_data_lengths=True", *labelLengths = "use_label_lengths=True";
  list.push_back({op, "", {{4, 3, 4}, {3, 2}}, 2, 0, 0, 4});
  list.push_back({op, last, {{3, 2, 3}, {2, 2}}, 3, 0, 0, 2});
  list.push_back({op,
                  "use_data_lengths=True, use_label_lengths=True, blank_label=last",
                  {{4, 3, 3}, {3, 2}, {3}, {3}},
                  2,
                  1.1,
                  1.4,
                  2});  // MXNet rounds lengths, and cuts them elsewhere
  list.push_back({op, labelLengths, {{3, 2, 3}, {2, 2}, {2}}, 2, 0.9, 2.3, 3});
  list.push_back({op, dataLengths, {{3, 3, 3}, {3, 1}, {3}}, 2, 2.1, 2.4, 3});
  list.push_back({op, "use_data_lengths=True, use_label_lengths=True", {{3, 3, 3}, {3, 2}, {3}, {3}}, 1, 0.2, 2.9, 3});
  list.push_back({op, last, {{3, 4, 2}, {4, 3}}, 2, 0, 0, 1});  // equal labels, more than fit
  list.push_back({op, last, {{1, 2, 3}, {2, 1}}, 3, 0, 0, 2});
  list.push_back({op, "", {{2, 1, 2}, {1, 0}}, 3});
  list.push_back({op, "", {{0, 2, 2}, {2, 0}}, 1});
  list.push_back({op, "", {{3, 0, 2}, {0, 2}}, 1});
  list.push_back({op, "", {{2, 2, 1}, {2, 1}}, 1, 0, 0, 1});
  list.push_back({"_ctc_loss_grad", last, {{3, 2, 3}, {2, 2}}, 1, 0, 0, 2});
  return list;
}

}  // namespace gradc::testing
