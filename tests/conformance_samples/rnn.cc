// Samples of RNN: modes, layers, directions, states as outputs, projection, clipping, lengths of sequences.
// The number of parameters is gates · state · directions · (input + output + 2) of the first layer, the same with
// directions · output for the input of the others, and output · state of each projection.
#include "tests/conformance_samples/samples.h"

namespace gradc::testing {

std::vector<Sample> rnnSamples() {
  std::vector<Sample> list;
  list.push_back({"RNN",
                  "state_size=2, num_layers=2, mode=rnn_relu, bidirectional=True, state_outputs=True",
                  {{2, 1, 2}, {56}, {4, 1, 2}},
                  1});
  list.push_back({"RNN",
                  "state_size=2, num_layers=2, mode=rnn_tanh, bidirectional=True, state_outputs=True",
                  {{2, 1, 2}, {56}, {4, 1, 2}},
                  1});
  list.push_back({"RNN",
                  "state_size=2, num_layers=2, mode=lstm, bidirectional=True, state_outputs=True",
                  {{2, 1, 2}, {224}, {4, 1, 2}, {4, 1, 2}},
                  1});
  list.push_back({"RNN",
                  "state_size=2, num_layers=2, mode=gru, bidirectional=True, state_outputs=True",
                  {{2, 1, 2}, {168}, {4, 1, 2}},
                  1});
  list.push_back({"RNN", "state_size=2, num_layers=1, mode=rnn_relu", {{2, 2, 2}, {12}, {1, 2, 2}}, 2});
  list.push_back({"RNN", "state_size=2, num_layers=1, mode=rnn_tanh", {{2, 2, 2}, {12}, {1, 2, 2}}, 2});
  list.push_back({"RNN", "state_size=2, num_layers=1, mode=lstm", {{2, 2, 2}, {48}, {1, 2, 2}, {1, 2, 2}}, 2});
  list.push_back({"RNN", "state_size=2, num_layers=1, mode=gru", {{2, 2, 2}, {36}, {1, 2, 2}}, 2});
  list.push_back(
      {"RNN", "state_size=2, num_layers=1, mode=rnn_relu, state_outputs=True", {{3, 2, 3}, {14}, {1, 2, 2}}, 1});
  list.push_back(
      {"RNN", "state_size=2, num_layers=1, mode=rnn_tanh, state_outputs=True", {{3, 2, 3}, {14}, {1, 2, 2}}, 1});
  list.push_back(
      {"RNN", "state_size=2, num_layers=1, mode=lstm, state_outputs=True", {{3, 2, 3}, {56}, {1, 2, 2}, {1, 2, 2}}, 1});
  list.push_back({"RNN", "state_size=2, num_layers=1, mode=gru, state_outputs=True", {{3, 2, 3}, {42}, {1, 2, 2}}, 1});
  list.push_back(
      {"RNN", "state_size=1, num_layers=1, mode=rnn_relu, bidirectional=True", {{2, 2, 1}, {8}, {2, 2, 1}}, 1});
  list.push_back(
      {"RNN", "state_size=1, num_layers=1, mode=rnn_tanh, bidirectional=True", {{2, 2, 1}, {8}, {2, 2, 1}}, 1});
  list.push_back(
      {"RNN", "state_size=1, num_layers=1, mode=lstm, bidirectional=True", {{2, 2, 1}, {32}, {2, 2, 1}, {2, 2, 1}}, 1});
  list.push_back({"RNN", "state_size=1, num_layers=1, mode=gru, bidirectional=True", {{2, 2, 1}, {24}, {2, 2, 1}}, 1});
  list.push_back(
      {"RNN", "state_size=1, num_layers=1, mode=lstm, state_outputs=True", {{2, 1, 1}, {16}, {1, 1, 1}, {1, 1, 1}}});
  list.push_back({"RNN", "state_size=1, num_layers=1, mode=gru, state_outputs=True", {{2, 1, 1}, {12}, {1, 1, 1}}});
  list.push_back({"RNN", "state_size=1, num_layers=1, mode=rnn_tanh, state_outputs=True", {{2, 1, 1}, {4}, {1, 1, 1}}});
  list.push_back({"RNN", "state_size=1, num_layers=1, mode=lstm", {{1, 1, 1}, {16}, {1, 1, 1}, {1, 1, 1}}});
  list.push_back({"RNN", "state_size=1, num_layers=1, mode=rnn_relu", {{2, 1, 1}, {4}, {1, 1, 1}}});
  list.push_back({"RNN",
                  "state_size=3, num_layers=1, mode=lstm, state_outputs=True, projection_size=2",
                  {{2, 2, 2}, {78}, {1, 2, 2}, {1, 2, 3}},
                  2});
  list.push_back({"RNN",
                  "state_size=2, num_layers=2, mode=lstm, bidirectional=True, projection_size=1",
                  {{2, 1, 2}, {168}, {4, 1, 1}, {4, 1, 2}},
                  1});
  list.push_back(
      {"RNN",
       "state_size=1, num_layers=1, mode=lstm, state_outputs=True, lstm_state_clip_min=-0.2, lstm_state_clip_max=0.1",
       {{3, 2, 1}, {16}, {1, 2, 1}, {1, 2, 1}},
       2});
  list.push_back({"RNN",
                  "state_size=2, num_layers=1, mode=lstm, state_outputs=True, use_sequence_length=True",
                  {{3, 2, 1}, {40}, {1, 2, 2}, {1, 2, 2}, {2}},
                  2,
                  0,
                  3.9});
  list.push_back(
      {"RNN",
       "state_size=1, num_layers=1, mode=gru, bidirectional=True, state_outputs=True, use_sequence_length=True",
       {{3, 2, 2}, {30}, {2, 2, 1}, {2}},
       2,
       -0.5,
       3.5});
  list.push_back({"RNN",
                  "state_size=1, num_layers=2, mode=rnn_tanh, use_sequence_length=True",
                  {{2, 2, 1}, {8}, {2, 2, 1}, {2}},
                  1,
                  0.3,
                  2.5});
  list.push_back({"RNN", "state_size=2, num_layers=1, mode=gru, state_outputs=True", {{0, 2, 1}, {30}, {1, 2, 2}}, 1});
  list.push_back({"RNN",
                  "state_size=2, num_layers=1, mode=lstm, bidirectional=True, state_outputs=True",
                  {{2, 0, 1}, {80}, {2, 0, 2}, {2, 0, 2}},
                  1});
  list.push_back(
      {"RNN", "state_size=1, num_layers=2, mode=rnn_tanh, bidirectional=True", {{0, 1, 2}, {20}, {4, 1, 1}}, 1});
  return list;
}

}  // namespace gradc::testing
