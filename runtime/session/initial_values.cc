#include "runtime/session/initial_values.h"

#include "ir/rules/kernel.h"
#include "runtime/arrays/elements.h"

#include <nlohmann/json.hpp>

#include <cmath>

using namespace llvm;

namespace gradc {
namespace {

// These distinguish the draws from each other and from those of random operators, whose steps count from 0.
constexpr uint64_t kInitStep = ~uint64_t{0};
constexpr uint64_t kParameterStep = ~uint64_t{2};

void fillWith(const TensorRef &tensor, double value) {
  for (int64_t i = 0, size = tensor.size(); i < size; ++i) writeElement(tensor, i, value);
}

/// SAX handler for `["Constant", {"value": 0.25}]`; the parser prescribes the method names. The parser's own tree of
/// values allocates in its destructor, which ends the process when there is no memory.
struct ListEvents {
  std::string name;
  double value = std::nan("");  // of the last key `value`; NaN if that is not a number
  bool isList = false;          // the first element is a string

  bool null() { return scalar(std::nan("")); }
  bool boolean(bool) { return scalar(std::nan("")); }
  bool number_integer(int64_t number) { return scalar(static_cast<double>(number)); }
  bool number_unsigned(uint64_t number) { return scalar(static_cast<double>(number)); }
  bool number_float(double number, const std::string &) { return scalar(number); }
  bool binary(nlohmann::json::binary_t &) { return false; }
  bool string(std::string &text) {
    if (depth == 1 && isInArray && position == 0) {
      name = StringRef(text).lower();
      isList = true;
    }
    return scalar(std::nan(""));
  }
  bool key(std::string &text) {
    isValue = depth == 2 && isInParameters && text == "value";
    return true;
  }
  bool start_array(size_t) { return open(true); }
  bool end_array() { return close(); }
  bool start_object(size_t) { return open(false); }
  bool end_object() { return close(); }
  bool parse_error(size_t, const std::string &, const nlohmann::json::exception &) { return false; }

 private:
  bool scalar(double number) {
    if (isValue) value = number;
    isValue = false;
    position += depth == 1;
    return true;
  }
  bool open(bool isArray) {
    if (isValue) value = std::nan("");
    isValue = false;
    if (depth == 0) isInArray = isArray;
    if (depth == 1) isInParameters = isInArray && !isArray && position == 1;
    ++depth;
    return true;
  }
  bool close() {
    --depth;
    position += depth == 1;
    return true;
  }

  size_t depth = 0, position = 0;  // open brackets, and elements of the list before this one
  bool isInArray = false, isInParameters = false, isValue = false;
};

/// The constant that an `__init__` attribute denotes; NaN for initialisers that draw, which fall back to the default.
/// Spelled `zeros`, or as a JSON list of name and parameters: `["Constant", {"value": 0.25}]`.
double constantOf(StringRef text) {
  ListEvents list;
  const bool isJson = nlohmann::json::sax_parse(text.begin(), text.end(), &list) && list.isList;
  const std::string name = isJson ? list.name : text.lower();
  if (name == "zero" || name == "zeros") return 0;
  if (name == "one" || name == "ones") return 1;
  return isJson && name == "constant" ? list.value : std::nan("");
}

int64_t smallest(Dims dims) {
  int64_t least = dims.empty() ? 1 : dims[0];
  for (int64_t dim : dims) least = std::min(least, dim);
  return std::max<int64_t>(least, 1);
}

/// The constant that a parameter starts from; NaN for one that is drawn.
double constantOfRole(StringRef op, StringRef role) {
  if (role == "gamma") return op == "LeakyReLU" ? 0.25 : 1;
  if (role == "moving_var") return 1;
  return role == "bias" || role == "beta" || role == "moving_mean" ? 0 : std::nan("");
}

double glorotBound(Dims shape) {
  double receptive = 1;
  for (int64_t dim : shape.drop_front(2)) receptive *= static_cast<double>(dim);
  return std::sqrt(6 / (static_cast<double>(shape[0] + shape[1]) * receptive));
}

}  // namespace

Initializer::Initializer(const Graph &graph, const Inference &inference, uint64_t seed)
    : graph(graph), inference(inference), seed(seed), firstReaders(graph, Reader()), readers(graph, Reader()),
      ordinals(graph, 0) {
  uint32_t numVariables = 0;
  for (uint32_t id = 0; id < graph.numNodes(); ++id) {
    const NodeKind &kind = graph.kind(NodeId(id));
    if (kind.isVariable()) {
      ordinals[NodeId(id)] = numVariables++;
      continue;
    }
    ArrayRef<Value> inputs = graph.inputs(NodeId(id));
    for (uint32_t i = 0; i < inputs.size(); ++i) {
      Reader &reader = readers[inputs[i].node];
      bool isFirst = !reader.node.isValid();
      if (isFirst) firstReaders[inputs[i].node] = {NodeId(id), i};
      bool isPlain = isFirst || domainOf(graph.kind(reader.node), reader.input) == Domain::Any;
      if (isFirst || (isPlain && domainOf(kind, i) != Domain::Any)) reader = {NodeId(id), i};
    }
  }
}

Dims Initializer::shapeOfInput(const Reader &reader, size_t input) const {
  ArrayRef<Value> inputs = graph.inputs(reader.node);
  if (input >= inputs.size()) return {};
  return inference.shapeOf(graph.entry(inputs[input])).dims();
}

/// Class numbers select along an axis of another operand: rows of the table when they are operand 0 (Embedding), else
/// one of the axes after the batch. The smallest candidate is in range for each of them.
int64_t Initializer::numClasses(const Reader &reader) const {
  if (reader.input == 0) return smallest(shapeOfInput(reader, 1).take_front(1));
  Dims scores = shapeOfInput(reader, 0);
  return smallest(scores.size() > 1 ? scores.drop_front() : scores);
}

/// Positions count along an axis of operand 0 or, where operand 0 is scattered, of the result.
int64_t Initializer::numIndices(const Reader &reader) const {
  const int64_t ofResult = smallest(inference.shapeOf(graph.entry(Value{reader.node})).dims());
  return reader.input == 0 ? ofResult : std::min(ofResult, smallest(shapeOfInput(reader, 0)));
}

/// Sequences run along axis 0 or 1 of the data.
int64_t Initializer::longestLength(const Reader &reader) const {
  return smallest(shapeOfInput(reader, reader.input == 0 ? 1 : 0).take_front(2));
}

double Initializer::spread(const Reader &reader, Dims shape) const {
  if (shape.empty()) return std::sqrt(3.0);
  if (reader.node.isValid() && inputName(graph.kind(reader.node), reader.input) == "data") return std::sqrt(3.0);
  double fanIn = 1;
  for (int64_t dim : shape.size() == 1 ? shape : shape.drop_front()) fanIn *= static_cast<double>(dim);
  return std::sqrt(3.0 / std::max(fanIn, 1.0));
}

bool Initializer::fillAsDeclared(NodeId variable, const TensorRef &tensor) const {
  std::optional<StringRef> text = graph.attrs(variable).get("__init__");
  double value = text ? constantOf(*text) : std::nan("");
  if (std::isnan(value)) return false;
  fillWith(tensor, value);
  return true;
}

void Initializer::fill(NodeId variable, TensorRef tensor) const {
  if (fillAsDeclared(variable, tensor)) return;
  const Reader &reader = readers[variable];
  Domain domain = reader.node.isValid() ? domainOf(graph.kind(reader.node), reader.input) : Domain::Any;
  RandomKey key{seed, kInitStep, ordinals[variable]};
  double low = 0, width = 1;
  bool isWhole = !isFloating(tensor.dtype);
  switch (domain) {
    case Domain::Any:
      width = isWhole ? 2 : 2 * spread(reader, tensor.shape);
      low = isWhole ? 0 : -width / 2;
      break;
    case Domain::Positive: low = isWhole ? 1 : 0.5; break;
    case Domain::Probability:
      low = isWhole ? 0 : 0.05;
      width = isWhole ? 2 : 0.9;
      break;
    case Domain::WithinOne:
      low = isWhole ? 0 : -0.9;
      width = isWhole ? 1 : 1.8;
      break;
    case Domain::AboveOne: low = isWhole ? 2 : 1.1; break;
    case Domain::ClassIndex:
      width = static_cast<double>(numClasses(reader));
      isWhole = true;
      break;
    case Domain::Index:
      width = static_cast<double>(numIndices(reader));
      isWhole = true;
      break;
    case Domain::Length:
      low = 1;
      width = static_cast<double>(longestLength(reader));
      isWhole = true;
      break;
  }
  for (int64_t i = 0, size = tensor.size(); i < size; ++i) {
    double draw = low + width * key.uniform(static_cast<uint64_t>(i));
    writeElement(tensor, i, isWhole ? std::floor(draw) : draw);
  }
}

void Initializer::fillParameter(NodeId variable, TensorRef tensor) const {
  const Reader &reader = firstReaders[variable];
  const bool isDeclared = graph.attrs(variable).get("__init__").has_value();
  if (isDeclared || !reader.node.isValid() || !isFloating(tensor.dtype)) return fill(variable, tensor);
  const NodeKind &kind = graph.kind(reader.node);
  const double constant = constantOfRole(kind.op->name, inputName(kind, reader.input));
  if (!std::isnan(constant)) return fillWith(tensor, constant);
  if (tensor.shape.size() < 2 || tensor.size() == 0) return fill(variable, tensor);
  const RandomKey key{seed, kParameterStep, ordinals[variable]};
  const double bound = glorotBound(tensor.shape);
  for (int64_t i = 0, size = tensor.size(); i < size; ++i)
    writeElement(tensor, i, bound * (2 * key.uniform(static_cast<uint64_t>(i)) - 1));
}

}  // namespace gradc
