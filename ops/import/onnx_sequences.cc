// Replaces ONNX's sequences of tensors by tensors, before the graph is translated. PyTorch exports
// Python lists as sequences; two uses of them cover nearly all exports:
//
//   results = []                                  for t in x.split(1):
//   for ...:                                          ... t[0] ...
//       results.append(y)
//   torch.cat(results)
//
// The first is a Loop whose state is a sequence to which each iteration appends one element; the
// second splits a tensor and takes elements by number. The program has no values of the type
// sequence: what is not understood here keeps its operator and is refused later by its name.
//
// 1. Graph walks through the nodes in order, with a map of names for each enclosing graph, and
//    notes for each name what sequence it is (Sequence::Kind).
// 2. Lower rewrites the nodes that read a sequence: SequenceAt becomes ElementOf, ChunkOf or
//    Identity, ConcatFromSequence becomes JoinList or JoinStacked, SequenceLength becomes LengthOf
//    or a Constant. These operators belong to an internal domain (kOnnxSequenceDomain).
// 3. LowerLoop marks the states that begin as empty lists (kState) and walks through the body. If
//    the body does nothing with such a state but append one element to it once (SpoilStates, Body),
//    MoveState removes the state: the element becomes an output of the body that the Loop stacks
//    over its iterations (kStacked).
//
// A list is a chain of elements, each with the index of the one before it, so that appending to a
// list that others hold costs nothing. Spend bounds the names that are copied and the steps along
// lists: a small hostile file must not ask for much work.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "ops/base/status.h"
#include "ops/graph/inference.h"
#include "ops/import/onnx_messages.h"
#include "ops/import/onnx_operators.h"

namespace beamwright::ops {
namespace {

using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::NodeProto;

// Bound of Spend: bytes of names that are copied plus steps along lists. No export has more.
constexpr size_t kMaxWork = size_t{64} << 20;

// What a name that is a sequence stands for.
struct Sequence {
  enum class Kind {
    kNone,     // the name is not a sequence, or none that is understood
    kList,     // elements one by one
    kSplit,    // the parts, of `chunk` each, of a tensor
    kStacked,  // the joined output of a Loop, with the iterations on axis 0
    kState,    // of the Loop around: what it holds when an iteration begins, and perhaps one more
  };
  Kind kind = Kind::kNone;
  int last = -1;         // kList: index of the last element, -1 if empty. kState: of the state
  int64_t count = 0;     // kList
  std::string tensor;    // kSplit, kStacked; kState: the element that has been appended, or empty
  int64_t axis = 0;      // kSplit
  int64_t keepdims = 0;  // kSplit
  int64_t chunk = 1;     // kSplit; the last part may be shorter
};

const AttributeProto* Find(const NodeProto& node, absl::string_view name) {
  const auto found = std::find_if(node.attribute().begin(), node.attribute().end(),
                                  [&](const AttributeProto& each) { return each.name() == name; });
  return found == node.attribute().end() ? nullptr : &*found;
}

int64_t IntOf(const NodeProto& node, absl::string_view name, int64_t fallback) {
  const AttributeProto* attribute = Find(node, name);
  return attribute == nullptr ? fallback : attribute->i();
}

void SetInt(NodeProto& node, const char* name, int64_t value) {
  AttributeProto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(AttributeProto::INT);
  attribute->set_i(value);
}

// Integers that the file states: of a scalar or a short list.
struct Integers {
  int rank = 0;
  std::vector<int64_t> values;
};

// The integers of an i64 scalar or short list; no value for other tensors.
std::optional<Integers> IntegersOf(const onnx::TensorProto& tensor) {
  constexpr int64_t kMost = 4096;
  const int rank = tensor.dims_size();
  const int64_t count = rank == 0 ? 1 : rank == 1 ? tensor.dims(0) : -1;
  if (count < 0 || count > kMost || tensor.data_type() != onnx::TensorProto::INT64) {
    return std::nullopt;
  }
  Integers integers{rank, std::vector<int64_t>(static_cast<size_t>(count))};
  const size_t bytes = sizeof(int64_t) * static_cast<size_t>(count);
  if (tensor.int64_data_size() == count) {
    std::copy(tensor.int64_data().begin(), tensor.int64_data().end(), integers.values.begin());
  } else if (tensor.raw_data().size() == bytes) {
    std::copy_n(tensor.raw_data().data(), bytes, reinterpret_cast<char*>(integers.values.data()));
  } else {
    return std::nullopt;
  }
  return integers;
}

class Lowering {
 public:
  // Lowers a graph. Its names stay known, so that the caller can look up its outputs, until Leave.
  absl::Status Graph(GraphProto& graph, int depth) {
    names_.emplace_back();
    integers_.emplace_back();
    for (const onnx::ValueInfoProto& input : graph.input()) {
      names_.back().try_emplace(input.name());
    }
    for (const onnx::TensorProto& initializer : graph.initializer()) {
      names_.back().try_emplace(initializer.name());
      integers_.back()[initializer.name()] = IntegersOf(initializer);
    }
    return Nodes(graph, depth);
  }

 private:
  void Leave() {
    names_.pop_back();
    integers_.pop_back();
  }

  // The sequence that a name stands for; nullptr if the name is no sequence.
  const Sequence* FindSequence(const std::string& name) {
    for (size_t scope = names_.size(); scope-- > 0;) {
      if (const auto found = names_[scope].find(name); found != names_[scope].end()) {
        return found->second.kind == Sequence::Kind::kNone ? nullptr : &found->second;
      }
    }
    return nullptr;
  }

  // A state of a Loop while its body is walked through.
  struct State {
    bool spoiled = false;  // something else than one SequenceInsert reads it
    NodeProto* insert = nullptr;
  };

  absl::Status Nodes(GraphProto& graph, int depth) {
    for (NodeProto& node : *graph.mutable_node()) {
      for (AttributeProto& attribute : *node.mutable_attribute()) {
        const bool is_loop = node.op_type() == "Loop" && IsStandard(node);
        if (attribute.has_g() && !is_loop && depth < kMaxLoopDepth) {
          BW_RETURN_IF_ERROR(Graph(*attribute.mutable_g(), depth + 1));
          Leave();
        }
      }
      Sequence made;
      if (IsStandard(node)) {
        BW_RETURN_IF_ERROR(node.op_type() == "Loop" ? LowerLoop(node, depth) : Lower(node, made));
      }
      for (const std::string& output : node.output()) {
        names_.back().try_emplace(output, made);  // LowerLoop has defined its own
      }
      SpoilStates(node, made);
      // An operator that is not understood and reads a Loop's list is refused later, by name.
      for (int i = 0; i < node.input_size(); ++i) {
        const Sequence* sequence = FindSequence(node.input(i));
        if (sequence != nullptr && sequence->kind == Sequence::Kind::kStacked) {
          node.set_input(i, sequence->tensor);
        }
      }
    }
    for (const onnx::ValueInfoProto& output : graph.output()) {
      const Sequence* sequence = FindSequence(output.name());
      if (sequence != nullptr && sequence->kind == Sequence::Kind::kStacked) {
        return absl::UnimplementedError(absl::StrCat(
            "output ", Quote(output.name()),
            " is a sequence of tensors; outputs must be tensors: stack its elements in "
            "the module"));
      }
    }
    return absl::OkStatus();
  }

  static bool IsStandard(const NodeProto& node) { return Domain(node.domain()).empty(); }

  // A node that reads a Loop's state in any other way than appending to it keeps it a sequence.
  void SpoilStates(const NodeProto& node, const Sequence& made) {
    for (int i = 0; i < node.input_size(); ++i) {
      const Sequence* sequence = FindSequence(node.input(i));
      if (sequence != nullptr && sequence->kind == Sequence::Kind::kState &&
          !(made.kind == Sequence::Kind::kState && i == 0 && sequence->tensor.empty())) {
        states_[static_cast<size_t>(sequence->last)].spoiled = true;
      }
    }
  }

  // The integer of a scalar or a list of one.
  std::optional<int64_t> IntegerOf(const std::string& name) const {
    const std::optional<Integers> integers = AllIntegersOf(name);
    return integers.has_value() && integers->values.size() == 1
               ? std::optional<int64_t>(integers->values[0])
               : std::nullopt;
  }

  std::optional<Integers> AllIntegersOf(const std::string& name) const {
    for (size_t scope = integers_.size(); scope-- > 0;) {
      if (const auto found = integers_[scope].find(name); found != integers_[scope].end()) {
        return found->second;
      }
    }
    return std::nullopt;
  }

  // A small file must not ask for much: names may be long, and one list may be read many times.
  absl::Status Spend(size_t work) {
    work_ += work + 32;
    return work_ <= kMaxWork ? absl::OkStatus()
                             : Invalid("sequences of tensors are read or copied too often");
  }

  absl::Status Append(const std::string& element, Sequence& list) {
    BW_RETURN_IF_ERROR(Spend(element.size()));
    elements_.push_back({list.last, element});
    list.kind = Sequence::Kind::kList;
    list.last = static_cast<int>(elements_.size()) - 1;
    ++list.count;
    return absl::OkStatus();
  }

  // Looks at a node that is no Loop: `made` gets the sequence that it makes, if it makes one.
  absl::Status Lower(NodeProto& node, Sequence& made) {
    const std::string& op = node.op_type();
    const Sequence* read = node.input_size() > 0 ? FindSequence(node.input(0)) : nullptr;
    if (op == "Constant") {
      const AttributeProto* value = Find(node, "value");
      const AttributeProto* integer = Find(node, "value_int");
      if (node.output_size() == 1 && (value != nullptr || integer != nullptr)) {
        integers_.back()[node.output(0)] =
            value != nullptr ? IntegersOf(value->t())
                             : std::optional<Integers>(Integers{0, {integer->i()}});
      }
    } else if (op == "SequenceEmpty") {
      made.kind = Sequence::Kind::kList;
    } else if (op == "SequenceConstruct") {
      made.kind = Sequence::Kind::kList;
      for (const std::string& element : node.input()) {
        BW_RETURN_IF_ERROR(Append(element, made));
      }
    } else if (op == "SplitToSequence") {
      return LowerSplit(node, made);
    } else if (read == nullptr) {
      return absl::OkStatus();
    } else if (op == "Identity") {
      made = read->kind == Sequence::Kind::kState ? Sequence() : *read;
    } else if (op == "SequenceInsert") {
      return LowerInsert(node, *read, made);
    } else if (op == "ConcatFromSequence") {
      return LowerConcat(node, *read);
    } else if (op == "SequenceAt") {
      return LowerAt(node, *read);
    } else if (op == "SequenceLength") {
      return LowerLength(node, *read);
    }
    return absl::OkStatus();
  }

  absl::Status LowerSplit(NodeProto& node, Sequence& made) {
    const bool has_split = node.input_size() > 1 && !node.input(1).empty();
    Integers split{0, {1}};
    if (has_split) {
      const std::optional<Integers> known = AllIntegersOf(node.input(1));
      split = known.value_or(Integers{0, {0}});
    }
    if (split.rank == 1 && node.output_size() == 1) {
      return SplitIntoList(node, split.values, made);
    }
    if (node.input_size() == 0 || split.rank != 0 || split.values[0] < 1) {
      return absl::OkStatus();
    }
    made.kind = Sequence::Kind::kSplit;
    made.chunk = split.values[0];
    made.tensor = node.input(0);
    made.axis = IntOf(node, "axis", 0);
    // The operator document ignores it where parts are asked for; exporters rely on it, and ONNX
    // Runtime obeys.
    made.keepdims = IntOf(node, "keepdims", 1);
    return absl::OkStatus();
  }

  // Parts of known lengths become separate names.
  absl::Status SplitIntoList(NodeProto& node, const std::vector<int64_t>& lengths, Sequence& made) {
    const std::string list = node.output(0);
    const int64_t axis = IntOf(node, "axis", 0);
    BW_RETURN_IF_ERROR(Spend(lengths.size() * (list.size() + 16)));
    Become(node, "PartsOf", {std::string(node.input(0)), std::string(node.input(1))});
    node.clear_attribute();
    SetInt(node, "axis", axis);
    node.clear_output();
    for (size_t i = 0; i < lengths.size(); ++i) {
      node.add_output(absl::StrCat(list, "/part/", i));
      BW_RETURN_IF_ERROR(Append(node.output(static_cast<int>(i)), made));
    }
    names_.back()[list] = std::exchange(made, Sequence());
    return absl::OkStatus();
  }

  absl::Status LowerInsert(NodeProto& node, const Sequence& read, Sequence& made) {
    if (node.input_size() != 2 && !(node.input_size() == 3 && node.input(2).empty())) {
      return absl::OkStatus();  // at a given place
    }
    if (read.kind == Sequence::Kind::kList) {
      made = read;
      return Append(node.input(1), made);
    }
    if (read.kind == Sequence::Kind::kState && read.tensor.empty()) {
      State& state = states_[static_cast<size_t>(read.last)];
      state.spoiled = state.spoiled || state.insert != nullptr;
      state.insert = &node;
      made = read;
      made.tensor = node.input(1);
    }
    return absl::OkStatus();
  }

  static void Become(NodeProto& node, const char* op, const std::vector<std::string>& inputs) {
    node.set_domain(kOnnxSequenceDomain);
    node.set_op_type(op);
    node.clear_input();
    for (const std::string& input : inputs) {
      node.add_input(input);
    }
  }

  absl::Status LowerConcat(NodeProto& node, const Sequence& read) {
    BW_RETURN_IF_ERROR(Spend(read.tensor.size()));
    if (read.kind == Sequence::Kind::kStacked) {
      Become(node, "JoinStacked", {std::string(read.tensor)});
    } else if (read.kind == Sequence::Kind::kList && read.count > 0) {
      std::vector<std::string> inputs;
      for (int at = read.last; at >= 0; at = elements_[static_cast<size_t>(at)].before) {
        inputs.push_back(elements_[static_cast<size_t>(at)].name);
        BW_RETURN_IF_ERROR(Spend(inputs.back().size()));
      }
      std::reverse(inputs.begin(), inputs.end());
      Become(node, "JoinList", inputs);
    }
    return absl::OkStatus();
  }

  absl::Status LowerAt(NodeProto& node, const Sequence& read) {
    if (node.input_size() != 2) {
      return absl::OkStatus();
    }
    BW_RETURN_IF_ERROR(Spend(read.tensor.size()));
    const std::string index = node.input(1);
    if (read.kind == Sequence::Kind::kSplit && read.chunk > 1) {
      const std::optional<int64_t> at = IntegerOf(index);
      if (at.has_value() && *at >= 0) {
        const Sequence from = read;
        Become(node, "ChunkOf", {from.tensor});
        SetInt(node, "axis", from.axis);
        SetInt(node, "index", *at);
        SetInt(node, "length", from.chunk);
      }
    } else if (read.kind == Sequence::Kind::kSplit || read.kind == Sequence::Kind::kStacked) {
      const Sequence from = read;
      Become(node, "ElementOf", {from.tensor, index});
      SetInt(node, "axis", from.axis);
      SetInt(node, "keepdims", from.keepdims);
    } else if (const auto at = IntegerOf(index); read.kind == Sequence::Kind::kList && at) {
      const int64_t from_end = *at < 0 ? -1 - *at : read.count - 1 - *at;
      if (from_end >= 0 && from_end < read.count) {
        BW_RETURN_IF_ERROR(Spend(static_cast<size_t>(from_end)));
        int element = read.last;
        for (int64_t i = 0; i < from_end; ++i) {
          element = elements_[static_cast<size_t>(element)].before;
        }
        node.set_op_type("Identity");
        node.clear_input();
        node.add_input(elements_[static_cast<size_t>(element)].name);
      }
    }
    return absl::OkStatus();
  }

  absl::Status LowerLength(NodeProto& node, const Sequence& read) {
    BW_RETURN_IF_ERROR(Spend(read.tensor.size()));
    if (read.kind == Sequence::Kind::kSplit && read.chunk > 1) {
      return absl::OkStatus();
    }
    if (read.kind == Sequence::Kind::kSplit || read.kind == Sequence::Kind::kStacked) {
      const int64_t axis = read.axis;
      Become(node, "LengthOf", {std::string(read.tensor)});
      SetInt(node, "axis", axis);
    } else if (read.kind == Sequence::Kind::kList) {
      AttributeProto* value = node.add_attribute();
      value->set_name("value");
      value->set_type(AttributeProto::TENSOR);
      value->mutable_t()->set_data_type(onnx::TensorProto::INT64);
      value->mutable_t()->add_int64_data(read.count);
      node.set_op_type("Constant");
      node.clear_input();
    }
    return absl::OkStatus();
  }

  // Inputs of a Loop: trip count, condition, states; of its body: iteration, condition, states.
  // Outputs of both end with what is joined; the body's begin with the condition.
  absl::Status LowerLoop(NodeProto& node, int depth) {
    GraphProto* body = nullptr;
    for (AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.name() == "body" && attribute.has_g()) {
        body = attribute.mutable_g();
      }
    }
    if (body == nullptr) {
      return absl::OkStatus();
    }
    const int num_states = node.input_size() - 2;
    const bool well_formed = num_states >= 0 && body->input_size() == num_states + 2 &&
                             body->output_size() >= num_states + 1 &&
                             node.output_size() == body->output_size() - 1;
    std::vector<int> lists(static_cast<size_t>(std::max(num_states, 0)), -1);
    names_.emplace_back();  // of the states, around the body's own names
    integers_.emplace_back();
    for (const onnx::ValueInfoProto& input : body->input()) {
      names_.back().try_emplace(input.name());
    }
    for (int i = 0; well_formed && i < num_states; ++i) {
      const Sequence* begin = FindSequence(node.input(i + 2));
      if (begin != nullptr && begin->kind == Sequence::Kind::kList && begin->count == 0) {
        lists[static_cast<size_t>(i)] = static_cast<int>(states_.size());
        names_.back()[body->input(i + 2).name()] = {Sequence::Kind::kState,
                                                    static_cast<int>(states_.size())};
        states_.emplace_back();
      }
    }
    BW_RETURN_IF_ERROR(Body(*body, lists, depth));
    names_.pop_back();
    integers_.pop_back();
    for (int i = num_states - 1; i >= 0; --i) {
      if (const int list = lists[static_cast<size_t>(i)]; list >= 0) {
        MoveState(node, *body, i, states_[static_cast<size_t>(list)]);
      }
    }
    return absl::OkStatus();
  }

  // Lowers a Loop's body; a state whose output is not the state with one element more is spoiled.
  absl::Status Body(GraphProto& body, const std::vector<int>& lists, int depth) {
    if (depth == kMaxLoopDepth) {  // it will be refused
      for (const int list : lists) {
        if (list >= 0) {
          states_[static_cast<size_t>(list)].spoiled = true;
        }
      }
      return absl::OkStatus();
    }
    // The body's inputs are known around it already.
    GraphProto inputs;
    inputs.mutable_input()->Swap(body.mutable_input());
    absl::Status status = Graph(body, depth + 1);
    body.mutable_input()->Swap(inputs.mutable_input());
    BW_RETURN_IF_ERROR(status);
    for (int i = 1; i < body.output_size(); ++i) {
      const Sequence* last = FindSequence(body.output(i).name());
      const bool is_state = last != nullptr && last->kind == Sequence::Kind::kState;
      for (size_t state = 0; state < lists.size(); ++state) {
        if (lists[state] < 0) {
          continue;
        }
        const bool own = is_state && last->last == lists[state];
        if (static_cast<size_t>(i) == state + 1 ? !own || last->tensor.empty() : own) {
          states_[static_cast<size_t>(lists[state])].spoiled = true;
        }
      }
    }
    Leave();
    return absl::OkStatus();
  }

  // The state with index `i` becomes the Loop's last output, joined over its iterations.
  void MoveState(NodeProto& node, GraphProto& body, int i, const State& state) {
    if (state.spoiled || state.insert == nullptr) {
      return;
    }
    const std::string list = node.output(i);
    const std::string stacked =
        absl::StrCat(list.empty() ? body.output(i + 1).name() : list, "/stacked/", ++num_stacked_);
    const std::string element = state.insert->input(1);
    state.insert->clear_input();  // it is not needed any more
    node.mutable_input()->DeleteSubrange(i + 2, 1);
    node.mutable_output()->DeleteSubrange(i, 1);
    node.add_output(stacked);
    body.mutable_input()->DeleteSubrange(i + 2, 1);
    body.mutable_output()->DeleteSubrange(i + 1, 1);
    body.add_output()->set_name(element);
    Sequence result;
    result.kind = Sequence::Kind::kStacked;
    result.tensor = stacked;
    if (!list.empty()) {
      names_.back()[list] = result;
    }
  }

  struct Element {
    int before;  // index of the element before it in its list, -1: it is the first
    std::string name;
  };
  std::vector<absl::flat_hash_map<std::string, Sequence>> names_;  // by graph, the innermost last
  std::vector<absl::flat_hash_map<std::string, std::optional<Integers>>> integers_;
  std::vector<Element> elements_;
  std::vector<State> states_;
  size_t work_ = 0;
  int num_stacked_ = 0;
};

}  // namespace

absl::Status LowerOnnxSequences(GraphProto& graph) { return Lowering().Graph(graph, 0); }

}  // namespace beamwright::ops
