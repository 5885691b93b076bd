// Before: two files, or one with both.
//
//   predictor(tokens, states) -> outputs, states'         joiner(frame, outputs) -> logits
//
// After: one graph (tokens, states, frame) -> (states', logits), whose values all count rows on
// their first axis, for CutTransducer to cut elsewhere. The steps are those of Joiner::Run:
//
// 1. FindTokens, FindStates, FindFrame, FindOutputs: which input takes the tokens, the states and a
//    frame, and which outputs lie between the two graphs; by name where the bundle gives one, else
//    by type if only one can be meant. Each of them also opens the axis of rows in the type that it
//    found, which exporters often fix at 1.
// 2. CheckInputs refuses a graph with an input that nothing would fill.
// 3. Merge copies the predictor, joins the joiner to its output (Fit reshapes where the two files
//    disagree about axes of extent 1), and orders Parameters and Results: tokens, states, frame;
//    states, logits.
// 4. Fold brings the merged graph into the form that rows of many requests can share: arithmetic on
//    shapes is folded, loops of one iteration are opened, states of layers count rows first.
#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "ops/base/status.h"
#include "ops/compile/graph_copy.h"
#include "ops/decoder/decoder_form.h"
#include "ops/decoder/transducer_graphs.h"
#include "ops/graph/rewrite.h"
#include "ops/loop/operators.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
namespace {

constexpr int64_t kOpen = PartialShape::kDynamic;

ValueInfo& InfoOfParameter(Graph& graph, int index) {
  return graph.node(graph.parameters[static_cast<size_t>(index)]).outputs[0];
}

std::string NamesOf(const Graph& graph, const std::vector<int>& nodes) {
  return absl::StrJoin(nodes, ", ", [&graph](std::string* out, int node) {
    absl::StrAppend(out, "'", PortName(graph, node), "'");
  });
}

// The Parameter of this name, as an index into graph.parameters; -1 if missing.
int FindParameter(const Graph& graph, const std::string& name) {
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    if (PortName(graph, graph.parameters[i]) == name) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

absl::StatusOr<int> NamedParameter(const Graph& graph, const char* field, const std::string& name) {
  const int found = FindParameter(graph, name);
  return found >= 0 ? absl::StatusOr<int>(found)
                    : Invalid(field, ": there is no input '", name, "'; there are ",
                              NamesOf(graph, graph.parameters));
}

class Joiner {
 public:
  Joiner(Graph predictor, std::optional<Graph> joiner, const TransducerPorts& ports,
         const TransducerOptions& options)
      : predictor_(std::move(predictor)),
        joiner_(std::move(joiner)),
        ports_(ports),
        options_(options) {}

  absl::StatusOr<JoinedTransducer> Run() {
    BW_RETURN_IF_ERROR(FindTokens());
    BW_RETURN_IF_ERROR(FindStates());
    BW_RETURN_IF_ERROR(FindFrame());
    BW_RETURN_IF_ERROR(FindOutputs());
    BW_RETURN_IF_ERROR(CheckInputs());
    BW_RETURN_IF_ERROR(Merge());
    BW_RETURN_IF_ERROR(Fold());
    return std::move(joined_);
  }

 private:
  bool is_one_graph() const { return !joiner_.has_value(); }
  Graph& joiner() { return is_one_graph() ? predictor_ : *joiner_; }

  // Which input takes the tokens, and that it takes rows of them.
  absl::Status FindTokens() {
    if (!ports_.token_input.empty()) {
      BW_ASSIGN_OR_RETURN(tokens_,
                          NamedParameter(predictor_, "predictor.token_input", ports_.token_input));
    } else {
      int count = 0;
      for (int i = 0; i < static_cast<int>(predictor_.parameters.size()); ++i) {
        const std::string name =
            PortName(predictor_, predictor_.parameters[static_cast<size_t>(i)]);
        if (IsInteger(InfoOfParameter(predictor_, i).dtype) && name != ports_.length_input) {
          tokens_ = i;
          ++count;
        }
      }
      if (count != 1) {
        return Invalid("predictor.token_input: is not set, and ", count,
                       " inputs take integers; there are ",
                       NamesOf(predictor_, predictor_.parameters));
      }
    }
    ValueInfo& info = InfoOfParameter(predictor_, tokens_);
    const std::string name =
        PortName(predictor_, predictor_.parameters[static_cast<size_t>(tokens_)]);
    if (info.dtype != DType::kI64 && info.dtype != DType::kI32) {
      return Invalid("predictor.token_input: '", name, "' is ", Name(info.dtype),
                     "; tokens are i64 or i32");
    }
    const int64_t width = std::max(options_.context_size, 1);
    const bool is_list = info.shape.has_rank() && info.shape.rank() == 1;
    const bool fits = is_list ? width == 1
                              : !info.shape.has_rank() ||
                                    (info.shape.rank() == 2 &&
                                     (info.shape.dim(1) == kOpen || info.shape.dim(1) == width));
    if (!fits) {
      return Invalid(options_.context_size > 0 ? "context_size: " : "predictor.token_input: ",
                     width, " tokens a row; '", name, "' is ", info.shape.ToString());
    }
    info.shape = is_list ? PartialShape({kOpen}) : PartialShape({kOpen, width});
    return absl::OkStatus();
  }

  // The pairs of an input and an output that the bundle names. Which axis of a state counts rows is
  // read off its shape: the only open axis, else the second one of three, [layers, rows, width],
  // else the first. All other extents must be known, from the input or from the output, because
  // states are made before the first run.
  absl::Status FindStates() {
    for (size_t i = 0; i < ports_.states.size(); ++i) {
      const std::string field = absl::StrCat("predictor.states[", i, "]");
      BW_ASSIGN_OR_RETURN(
          const int parameter,
          NamedParameter(predictor_, (field + ".input").c_str(), ports_.states[i].input));
      BW_ASSIGN_OR_RETURN(const int result, FindResult(predictor_, field + ".output",
                                                       ports_.states[i].output, "predictor"));
      states_.push_back({parameter, result});
      ValueInfo& info = InfoOfParameter(predictor_, parameter);
      if (!info.shape.has_rank() || info.shape.rank() < 2) {
        return Invalid(field, ".input: '", ports_.states[i].input, "' is ", info.shape.ToString(),
                       "; a state has an axis of rows and another one");
      }
      Shape dims = info.shape.dims();
      const auto open = std::count(dims.begin(), dims.end(), kOpen);
      // Of layers over rows the second axis, unless the file says that it is another one.
      size_t rows = dims.size() > 2 && (dims[1] == kOpen || dims[1] == 1) ? 1 : 0;
      if (open == 1) {
        rows = static_cast<size_t>(std::find(dims.begin(), dims.end(), kOpen) - dims.begin());
      }
      dims[rows] = kOpen;
      const PartialShape& next = InfoOfResult(predictor_, result).shape;
      for (size_t axis = 0; axis < dims.size(); ++axis) {
        if (axis != rows && dims[axis] == kOpen && next.has_rank() &&
            next.rank() == static_cast<int>(dims.size())) {
          dims[axis] = next.dim(static_cast<int>(axis));
        }
        if (axis != rows && dims[axis] == kOpen) {
          return Invalid(field, ".input: '", ports_.states[i].input, "' is ", info.shape.ToString(),
                         "; extents of a state must be known, but for rows");
        }
      }
      info.shape = PartialShape(std::move(dims));
    }
    return absl::OkStatus();
  }

  // Which input takes frames, and how one lies in it.
  absl::Status FindFrame() {
    BW_ASSIGN_OR_RETURN(frame_,
                        NamedParameter(joiner(), "joiner.encoder_input", ports_.encoder_input));
    ValueInfo& info = InfoOfParameter(joiner(), frame_);
    if (info.dtype != DType::kF32 || !info.shape.has_rank() || info.shape.rank() < 2 ||
        info.shape.rank() > 3) {
      return Invalid("joiner.encoder_input: '", ports_.encoder_input, "' is ", Name(info.dtype),
                     info.shape.ToString(),
                     "; frames are f32 [rows, width], [rows, 1, width] or [rows, width, 1]");
    }
    const int rank = info.shape.rank();
    int axis = rank - 1;
    if (rank == 3 && info.shape.dim(1) > 1) {
      axis = 1;
    } else if (rank == 3 && info.shape.dim(2) <= 1) {
      axis = options_.width_first ? 1 : 2;
    }
    int64_t width = info.shape.dim(axis);
    if (width != kOpen && options_.frame_width >= 0 && width != options_.frame_width) {
      return Invalid("joiner.encoder_input: '", ports_.encoder_input, "' is ",
                     info.shape.ToString(), "; the encoder's frames have ", options_.frame_width,
                     " values");
    }
    width = width == kOpen ? options_.frame_width : width;
    if (width < 1) {
      return Invalid("joiner.encoder_input: neither '", ports_.encoder_input,
                     "' nor the encoder states the width of a frame");
    }
    joined_.frame_width = width;
    joined_.frame_shape.assign(static_cast<size_t>(rank), 1);
    joined_.frame_shape[0] = kOpen;
    joined_.frame_shape[static_cast<size_t>(axis)] = width;
    info.shape = PartialShape(joined_.frame_shape);
    return absl::OkStatus();
  }

  // What the predictor gives the joiner, where the joiner takes it, and the logits. In one graph
  // there is nothing between the two, and the logits are what is left when states are taken away.
  absl::Status FindOutputs() {
    if (is_one_graph()) {
      BW_ASSIGN_OR_RETURN(logits_,
                          RestResult(predictor_, "joiner.logits_output", ports_.logits_output));
      return absl::OkStatus();
    }
    BW_ASSIGN_OR_RETURN(output_,
                        RestResult(predictor_, "predictor.output", ports_.predictor_output));
    BW_ASSIGN_OR_RETURN(
        logits_, FindResult(*joiner_, "joiner.logits_output", ports_.logits_output, "joiner"));
    if (!ports_.predictor_input.empty()) {
      BW_ASSIGN_OR_RETURN(
          input_, NamedParameter(*joiner_, "joiner.predictor_input", ports_.predictor_input));
    } else if (joiner_->parameters.size() == 2) {
      input_ = 1 - frame_;
    } else {
      return Invalid("joiner.predictor_input: is not set; there are ",
                     NamesOf(*joiner_, joiner_->parameters));
    }
    return absl::OkStatus();
  }

  // The result of this name; without one the only result of floats that is no state's.
  absl::StatusOr<int> RestResult(const Graph& graph, const char* field,
                                 const std::string& name) const {
    if (!name.empty()) {
      return FindResult(graph, field, name, "graph");
    }
    std::vector<int> rest;
    for (int i = 0; i < static_cast<int>(graph.results.size()); ++i) {
      const bool is_state = std::any_of(states_.begin(), states_.end(),
                                        [i](const StepState& state) { return state.result == i; });
      const DType dtype = InfoOfResult(graph, i).dtype;
      if (!is_state && (dtype == DType::kUndefined || IsFloat(dtype))) {
        rest.push_back(i);
      }
    }
    return rest.size() == 1
               ? absl::StatusOr<int>(rest[0])
               : Invalid(field, ": is not set; there are ", NamesOf(graph, graph.results));
  }

  // Checks that every input is fed.
  absl::Status CheckInputs() const {
    for (int i = 0; i < static_cast<int>(predictor_.parameters.size()); ++i) {
      const std::string name = PortName(predictor_, predictor_.parameters[static_cast<size_t>(i)]);
      const bool is_state =
          std::any_of(states_.begin(), states_.end(),
                      [i](const StepState& state) { return state.parameter == i; });
      if (i != tokens_ && !is_state && name != ports_.length_input &&
          !(is_one_graph() && i == frame_)) {
        return Invalid("predictor: input '", name,
                       "' is neither the token, its length nor a state; name it in states");
      }
    }
    if (!is_one_graph() && joiner_->parameters.size() != 2) {
      return Invalid("joiner: has the inputs ", NamesOf(*joiner_, joiner_->parameters),
                     "; supported are a frame and the predictor's output");
    }
    return absl::OkStatus();
  }

  // The predictor's output as the joiner's input takes it.
  absl::StatusOr<ValueId> Fit(Graph& graph, ValueId value, const ValueInfo& given,
                              const ValueInfo& taken) const {
    const auto refuse = [&] {
      const int output = predictor_.results[static_cast<size_t>(output_)];
      return Invalid("joiner.predictor_input: the predictor's '", PortName(predictor_, output),
                     "' is ", Name(given.dtype), given.shape.ToString(), "; the joiner takes '",
                     PortName(*joiner_, joiner_->parameters[static_cast<size_t>(input_)]), "' ",
                     Name(taken.dtype), taken.shape.ToString());
    };
    if (given.dtype != taken.dtype) {
      return refuse();
    }
    if (!given.shape.has_rank() || !taken.shape.has_rank()) {
      return value;
    }
    // What is left without rows and ones must agree.
    const auto extents = [](const PartialShape& shape) {
      Shape dims(shape.dims().begin() + std::min(shape.rank(), 1), shape.dims().end());
      dims.erase(std::remove(dims.begin(), dims.end(), 1), dims.end());
      return dims;
    };
    const Shape from = extents(given.shape);
    Shape to = extents(taken.shape);
    if (given.shape.rank() == taken.shape.rank()) {
      for (int axis = 1; axis < given.shape.rank(); ++axis) {
        const int64_t a = given.shape.dim(axis);
        const int64_t b = taken.shape.dim(axis);
        if (a != b && a != kOpen && b != kOpen) {
          return refuse();
        }
      }
      return value;
    }
    to.erase(std::remove(to.begin(), to.end(), from.empty() ? 0 : kOpen), to.end());
    if (from.size() != 1 || (!to.empty() && to != from)) {
      return refuse();
    }
    std::vector<int64_t> target(static_cast<size_t>(taken.shape.rank()), 1);
    target[0] = -1;
    size_t width = target.size() - 1;
    for (size_t axis = 1; axis < target.size(); ++axis) {
      width = taken.shape.dim(static_cast<int>(axis)) == from[0] ? axis : width;
    }
    target[width] = from[0];
    Node reshape;
    reshape.op = "Reshape";
    reshape.name = "predictor_to_joiner";
    reshape.inputs = {value, AppendInts(graph, reshape.name, target)};
    reshape.attributes.Set("special_zero", false);
    reshape.outputs.resize(1);
    return AppendNode(graph, std::move(reshape));
  }

  // One graph out of two: the predictor's nodes, behind them the joiner's with the predictor's
  // output in the place of its input, and at the end Parameters and Results in the order that
  // JoinedTransducer promises. An input of lengths becomes the constant 1: a step reads one token
  // list.
  absl::Status Merge() {
    // What the predictor gives is known once its inputs are.
    BW_RETURN_IF_ERROR(Annotate(InferGraph(predictor_, Operators()).status(), "predictor"));
    GraphCopy copy(predictor_);
    std::vector<ValueId> values;  // of the results
    for (int i = 0; i < static_cast<int>(predictor_.nodes.size()); ++i) {
      const Node& node = predictor_.node(i);
      if (node.op == "Parameter" && PortName(predictor_, i) == ports_.length_input) {
        const absl::StatusOr<Tensor> one =
            Convert(Tensor::Of<int64_t>({1}, std::vector<int64_t>{1}), node.outputs[0].dtype);
        BW_RETURN_IF_ERROR(one.status());
        copy.Replace({i, 0}, AppendConstant(copy.to(), node.name, *one));
      } else if (node.op != "Result") {
        copy.Keep(i);
      }
    }
    const auto source = [&](int result) {
      return predictor_.node(predictor_.results[static_cast<size_t>(result)]).inputs[0];
    };
    for (const StepState& state : states_) {
      values.push_back(copy.Of(source(state.result)));
    }
    ValueId frame;
    if (is_one_graph()) {
      frame = copy.Of({predictor_.parameters[static_cast<size_t>(frame_)], 0});
      values.push_back(copy.Of(source(logits_)));
    } else {
      Node node = joiner_->node(joiner_->parameters[static_cast<size_t>(frame_)]);
      frame = AppendNode(copy.to(), std::move(node));
      std::vector<ValueId> inputs(2);
      inputs[static_cast<size_t>(frame_)] = frame;
      BW_ASSIGN_OR_RETURN(
          inputs[static_cast<size_t>(input_)],
          Fit(copy.to(), copy.Of(source(output_)), InfoOfResult(predictor_, output_),
              InfoOfParameter(*joiner_, input_)));
      values.push_back(copy.Inline(*joiner_, inputs)[static_cast<size_t>(logits_)]);
    }
    Graph& graph = copy.to();
    std::vector<int> results;
    for (size_t i = 0; i < values.size(); ++i) {
      Node node;
      node.op = "Result";
      node.name = i < states_.size() ? ports_.states[i].output : "scores";
      node.inputs = {values[i]};
      results.push_back(AppendNode(graph, std::move(node)).node);
    }
    std::vector<int> parameters = {
        copy.Of({predictor_.parameters[static_cast<size_t>(tokens_)], 0}).node};
    for (size_t i = 0; i < states_.size(); ++i) {
      const int old = predictor_.parameters[static_cast<size_t>(states_[i].parameter)];
      joined_.states.push_back({static_cast<int>(parameters.size()), static_cast<int>(i)});
      parameters.push_back(copy.Of({old, 0}).node);
    }
    joined_.frame = static_cast<int>(parameters.size());
    joined_.logits = static_cast<int>(states_.size());
    parameters.push_back(frame.node);
    joined_.graph = std::move(copy).Finish();
    joined_.graph.parameters = std::move(parameters);
    joined_.graph.results = std::move(results);
    joined_.graph = DropUnneeded(joined_.graph);
    return absl::OkStatus();
  }

  // Into the form that rows of many requests can share.
  absl::Status Fold() {
    Graph& graph = joined_.graph;
    GraphInfo& info = joined_.info;
    BW_ASSIGN_OR_RETURN(info, InferGraph(graph, Operators()));
    BW_RETURN_IF_ERROR(FoldShapes(graph, info, {Operators()}).status());
    if (std::optional<Graph> changed = InlineSingleIterations(graph)) {
      graph = *std::move(changed);
      BW_ASSIGN_OR_RETURN(info, InferGraph(graph, Operators()));
    }
    std::vector<StepState> moved;
    std::copy_if(
        joined_.states.begin(), joined_.states.end(), std::back_inserter(moved),
        [&graph](const StepState& state) { return CountsRowsSecond(graph, 0, state.parameter); });
    if (!moved.empty()) {
      MoveRowsFirst(graph, moved);
      BW_ASSIGN_OR_RETURN(info, InferGraph(graph, Operators()));
    }
    return FoldShapes(graph, info, {Operators(), DecoderRowAxes(graph, 0, 0)}).status();
  }

  Graph predictor_;
  std::optional<Graph> joiner_;
  const TransducerPorts& ports_;
  const TransducerOptions& options_;
  JoinedTransducer joined_;
  int tokens_ = -1;                // index into the predictor's parameters
  std::vector<StepState> states_;  // into its parameters, and into its results
  int output_ = -1;                // of its results: what the joiner reads
  int frame_ = -1;                 // of the joiner's parameters
  int input_ = -1;                 // of the joiner's parameters
  int logits_ = -1;                // of its results
};

}  // namespace

absl::StatusOr<JoinedTransducer> JoinTransducer(Graph predictor, std::optional<Graph> joiner,
                                                const TransducerPorts& ports,
                                                const TransducerOptions& options) {
  return Joiner(std::move(predictor), std::move(joiner), ports, options).Run();
}

}  // namespace beamwright::ops
