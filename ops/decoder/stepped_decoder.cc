// CompileDecoder: from a decoder graph to a step program and its prologue.
//
// 1. FormDecoder (decoder_form.cc) brings the graph into one of two forms. Of a loop over the
//    target, CompileLoop takes the body; a step graph becomes the body of a loop whose back edges
//    the ports name (CompileStepGraph).
// 2. The token input is found and checked (UseTokenInput), as are the logits and the attention
//    among the results.
// 3. CompileBody: the product with the vocabulary is split off (TakeProjection), so that its scores
//    are scanned while they are in the cache; what depends on the token alone becomes tables
//    (AddTokenTables); layers are fused (JoinStepLayers); and the body is compiled (LoopBody).
// 4. Everything that states and invariants start from is the prologue, which runs once per request.
//    It may read the shape of the tokens and never the tokens (CheckTokenUse).
// 5. FindAttentionLayout: which axes of the attention weights count rows, heads and source
//    positions.
//
// CheckStatesAreNamed catches the usual mistake in a bundle: an input that no line names would
// count as memory, which never changes, while a result of the same form is unread: that is a state
// that was left out.
#include "ops/decoder/stepped_decoder.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/base/status.h"
#include "ops/compile/growing_states.h"
#include "ops/decoder/decoder_form.h"
#include "ops/decoder/decoder_ports.h"
#include "ops/decoder/split_projection.h"
#include "ops/decoder/step_form.h"
#include "ops/decoder/step_inputs.h"
#include "ops/graph/rewrite.h"
#include "ops/loop/operators.h"
#include "ops/passes/passes.h"

namespace beamwright::ops {
namespace {

class DecoderCompiler {
 public:
  DecoderCompiler(Graph graph, const DecoderPorts& ports, const DecoderOptions& options,
                  SteppedDecoder& decoder)
      : decoder_(decoder), ports_(ports), options_(options) {
    decoder_.decoder = std::move(graph);
    decoder_.logits_kind = options.score_kind;
  }

  absl::Status Run() {
    TakeAndGiveF32(decoder_.decoder);
    BW_ASSIGN_OR_RETURN(DecoderForm form, FormDecoder(std::move(decoder_.decoder), ports_));
    decoder_.decoder = std::move(form.graph);
    decoder_.moved_states = std::move(form.moved_states);
    DropLargeConstants(decoder_.decoder);
    const Graph& graph = decoder_.decoder;
    const GraphInfo& info = form.info;
    if (form.loop_node >= 0) {
      decoder_.step_name = form.joined ? absl::StrCat("loops and layers over '", ports_.token_input,
                                                      "', made one step")
                                       : Describe(graph.node(form.loop_node));
      BW_RETURN_IF_ERROR(CompileLoop(form.loop_node, info));
    } else {
      const auto quoted = [](std::string* out, const StatePorts& state) {
        absl::StrAppend(out, "'", state.input, "'");
      };
      decoder_.step_name =
          absl::StrCat("step graph with token '", ports_.token_input, "' and states ",
                       absl::StrJoin(ports_.states, ", ", quoted));
      BW_RETURN_IF_ERROR(CompileStepGraph(info));
      std::vector<std::string> growing;
      for (size_t i = 0; i < decoder_.state_values.size(); ++i) {
        if (decoder_.body->growing_axis(i) >= 0) {
          growing.push_back(absl::StrCat("'", PortName(graph, decoder_.state_values[i].node), "'"));
        }
      }
      if (!growing.empty()) {
        absl::StrAppend(&decoder_.step_name,
                        ", which grow by one a step: ", absl::StrJoin(growing, ", "));
      }
    }
    std::vector<ValueId> wanted = decoder_.state_values;
    wanted.insert(wanted.end(), decoder_.invariant_values.begin(), decoder_.invariant_values.end());
    const std::vector<bool> needed = AncestorsOf(graph, wanted);
    BW_RETURN_IF_ERROR(CheckTokenUse(wanted, needed));
    BW_ASSIGN_OR_RETURN(decoder_.prologue, Program::Compile(graph, info, Operators(), needed));
    Program* const prologue = &decoder_.prologue;
    Program::DropUnread(graph, {&prologue, 1}, wanted);
    std::copy_if(graph.parameters.begin(), graph.parameters.end(),
                 std::back_inserter(decoder_.input_nodes),
                 [this](int node) { return node != token_node_; });
    FindAttentionLayout();
    return absl::OkStatus();
  }

 private:
  const Node& Parameter(size_t index) const {
    return decoder_.decoder.node(decoder_.decoder.parameters[index]);
  }

  // Checks that the prologue reads the tokens' shape alone, as for states of the right extent. A
  // value of which only the shape is read, such as a looked-up embedding, does no harm.
  absl::Status CheckTokenUse(absl::Span<const ValueId> wanted, const std::vector<bool>& needed) {
    const Graph& graph = decoder_.decoder;
    decoder_.token_node = token_node_;
    decoder_.prologue_measures_tokens = needed[static_cast<size_t>(token_node_)];
    // By node: the first one on the way from the tokens to it; -1: it does not follow from them.
    std::vector<int> reader(graph.nodes.size(), -1);
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const ValueId input : graph.nodes[i].inputs) {
        if (reader[i] >= 0 || !needed[i] || !input.present() || graph.nodes[i].op == "ShapeOf") {
          continue;
        }
        reader[i] = input.node == token_node_ ? static_cast<int>(i)
                                              : reader[static_cast<size_t>(input.node)];
      }
    }
    for (const ValueId value : wanted) {
      if (!value.present()) {
        continue;
      }
      const int first =
          value.node == token_node_ ? value.node : reader[static_cast<size_t>(value.node)];
      if (first >= 0) {
        return absl::UnimplementedError(
            absl::StrCat("the decoder's states or memory depend on its token input '",
                         PortName(graph, token_node_), "' by ", Describe(graph.node(first))));
      }
    }
    return absl::OkStatus();
  }

  // Checks the sliced input of a loop and finds the Parameter that feeds it.
  absl::Status UseTokenInput(const Node& node, const LoopInput& rule) {
    if (rule.start != 0 || rule.end != -1 || rule.stride != 1 || rule.part_size != 1) {
      return absl::UnimplementedError(
          absl::StrCat(Describe(node),
                       ": the target sequence must be sliced forwards, one token at a time, "
                       "from start to end"));
    }
    const ValueId source = node.inputs[static_cast<size_t>(rule.input)];
    if (decoder_.decoder.node(source.node).op != "Parameter") {
      return absl::UnimplementedError(
          absl::StrCat(Describe(decoder_.decoder.node(source.node)),
                       " stands between the token input and the loop; move it into the body"));
    }
    return UseTokenParameter(source.node, rule);
  }

  absl::Status UseTokenParameter(int node, const LoopInput& rule) {
    const std::string name = PortName(decoder_.decoder, node);
    if (!ports_.token_input.empty() && ports_.token_input != name) {
      return Invalid("decoder.token_input: '", ports_.token_input,
                     "' is not what the loop slices; that is '", name, "'");
    }
    token_node_ = node;
    const ValueInfo& info = decoder_.decoder.node(node).outputs[0];
    decoder_.token_dtype = info.dtype;
    if (info.dtype != DType::kI64 && info.dtype != DType::kI32) {
      return Invalid("token input '", name, "' is ", Name(info.dtype), "; it must be i64 or i32");
    }
    if (rule.drop_axis) {
      decoder_.token_shape = {-1};
    } else if (rule.axis == 0) {
      decoder_.token_shape = {1, -1};
    } else {
      decoder_.token_shape = {-1, 1};
    }
    return absl::OkStatus();
  }

  absl::Status CompileLoop(int loop_node, const GraphInfo& info) {
    const Node& node = decoder_.decoder.node(loop_node);
    if (node.loop->items != Loop::Items::kTogether) {
      return absl::UnimplementedError(absl::StrCat(
          Describe(node), ": a loop over items of their own length is not supported as a decoder"));
    }
    int num_sliced = 0;
    for (const LoopInput& rule : node.loop->inputs) {
      if (rule.kind == LoopInput::Kind::kIteration) {
        return absl::UnimplementedError(
            absl::StrCat(Describe(node),
                         ": a body that reads the iteration number is not "
                         "supported as a decoder"));
      }
      if (rule.kind == LoopInput::Kind::kSliced) {
        ++num_sliced;
        BW_RETURN_IF_ERROR(UseTokenInput(node, rule));
      }
    }
    if (num_sliced != 1) {
      return Invalid(Describe(node), " has ", num_sliced,
                     " sliced inputs; a decoder's loop has one, its tokens");
    }
    BW_RETURN_IF_ERROR(FindLoopLogits(loop_node));
    absl::Status status = CompileBody(*node.loop, *info.bodies[static_cast<size_t>(loop_node)][0]);
    if (!status.ok()) {
      return Annotate(status, Describe(node));
    }
    for (const int rule : decoder_.body->carried()) {
      decoder_.state_values.push_back(InputValue(node, rule));
    }
    for (size_t i = 0; i < decoder_.body->invariants().size(); ++i) {
      // Weights that the body has packed are not passed to it.
      decoder_.invariant_values.push_back(decoder_.body->reads_invariant(i)
                                              ? InputValue(node, decoder_.body->invariants()[i])
                                              : ValueId{});
    }
    return absl::OkStatus();
  }

  // Splits the product with the vocabulary off the body, unless its scores are a state as well.
  void TakeProjection(Loop& loop, const GraphInfo& body_info) {
    const bool is_state = std::any_of(
        loop.inputs.begin(), loop.inputs.end(),
        [this](const LoopInput& input) { return input.back_edge == decoder_.logits_result; });
    if (!is_state && !options_.for_inspection) {
      decoder_.projection =
          SplitProjection(loop.body, body_info, decoder_.logits_result, options_.num_tokens,
                          options_.projection, decoder_.logits_kind);
    }
  }

  absl::Status CompileBody(Loop loop, GraphInfo info) {
    TakeProjection(loop, info);
    BW_RETURN_IF_ERROR(FindVocabulary(loop.body));
    const OperatorSet& operators = Operators(options_.steps);
    TakeScalesByRow(info, operators, loop);
    const int num_tokens = std::max(decoder_.vocabulary_size, options_.begin_token + 1);
    decoder_.token_tables = AddTokenTables(
        {num_tokens, options_.token_table_share, options_.context}, operators, loop, info);
    BW_RETURN_IF_ERROR(JoinStepLayers(operators, loop, info));
    BW_ASSIGN_OR_RETURN(
        decoder_.body,
        LoopBody::Compile(std::make_shared<const Loop>(std::move(loop)), info, operators));
    return absl::OkStatus();
  }

  // Fuses layers of the body. Bodies whose caches grow are left as they are: they have other plans.
  absl::Status JoinStepLayers(const OperatorSet& operators, Loop& loop, GraphInfo& info) const {
    const bool grows =
        std::any_of(loop.inputs.begin(), loop.inputs.end(),
                    [&loop](const LoopInput& input) { return GrowingAxis(loop, input) >= 0; });
    if (grows || options_.for_inspection) {
      return absl::OkStatus();
    }
    // Large constants were dropped from the graph; inference asks for them once more.
    for (size_t i = 0; i < loop.body.nodes.size(); ++i) {
      Node& node = loop.body.nodes[i];
      if (node.op == "Constant" && !node.constant.has_value()) {
        node.constant = info.constants[i][0];
      }
    }
    BW_RETURN_IF_ERROR(JoinLayers(loop.body, info, {operators}).status());
    DropLargeConstants(loop.body);
    return absl::OkStatus();
  }

  static ValueId InputValue(const Node& node, int rule) {
    const LoopInput& input = node.loop->inputs[static_cast<size_t>(rule)];
    return node.inputs[static_cast<size_t>(input.input)];
  }

  absl::Status FindLoopLogits(int loop_node) {
    BW_ASSIGN_OR_RETURN(const int result, FindResult(decoder_.decoder, "decoder.logits_output",
                                                     ports_.logits_output));
    const ValueId source = SourceOf(result);
    if (source.node != loop_node) {
      return absl::UnimplementedError(
          absl::StrCat(Describe(decoder_.decoder.node(source.node)),
                       " stands between the loop and the logits; move it into the body"));
    }
    decoder_.logits_result = BodyResult(loop_node, source);
    if (decoder_.logits_result < 0) {
      return Invalid("decoder.logits_output: '", ports_.logits_output,
                     "' is the loop's last value; logits must be joined over the target sequence");
    }
    return FindLoopAttention(loop_node);
  }

  // What a result of the decoder graph hands on.
  ValueId SourceOf(int result) const {
    return decoder_.decoder.node(decoder_.decoder.results[static_cast<size_t>(result)]).inputs[0];
  }

  // The body's result that becomes this output of the loop, joined over the target sequence; -1 if
  // it is no such output.
  int BodyResult(int loop_node, ValueId value) const {
    for (const LoopOutput& output : decoder_.decoder.node(loop_node).loop->outputs) {
      if (value.node == loop_node && output.output == value.output &&
          output.kind != LoopOutput::Kind::kLastValue) {
        return output.body_result;
      }
    }
    return -1;
  }

  // Without attention from the loop the model decodes, and answers have no attention.
  absl::Status FindLoopAttention(int loop_node) {
    const absl::StatusOr<int> result = FindAttention(decoder_.decoder, ports_);
    if (!result.ok() && decoder_.decoder.results.size() > 1) {
      return result.status();
    }
    if (result.ok() && *result < 0) {
      return absl::OkStatus();
    }
    decoder_.attention_result = result.ok() ? BodyResult(loop_node, SourceOf(*result)) : -1;
    if (decoder_.attention_result < 0) {
      decoder_.no_attention = absl::StrCat("its attention_output '", ports_.attention_output,
                                           "' is not computed step by step");
    }
    return absl::OkStatus();
  }

  // The last axis of the weights that is not 1 and does not count rows counts the source.
  void FindAttentionLayout() {
    if (decoder_.attention_result < 0) {
      return;
    }
    const Graph& body = decoder_.body->loop().body;
    const Node& result = body.node(body.results[static_cast<size_t>(decoder_.attention_result)]);
    const ValueInfo& info = body.info(result.inputs[0]);
    AttentionLayout& layout = decoder_.attention_layout;
    layout.row_axis = decoder_.body->result_row_axis(decoder_.attention_result);
    // Where rows run one at a time, how they are counted is unknown.
    layout.heads_in_row = decoder_.body->plan().separable
                              ? decoder_.body->result_row_factor(decoder_.attention_result)
                              : 0;
    for (int axis = 0; info.shape.has_rank() && axis < info.shape.rank(); ++axis) {
      const bool may_count_source = axis != layout.row_axis && info.shape.dim(axis) != 1;
      layout.position_axis = may_count_source ? axis : layout.position_axis;
    }
    if (layout.position_axis < 0 || info.dtype != DType::kF32) {
      decoder_.attention_result = -1;
      decoder_.no_attention =
          absl::StrCat("its attention_output '", ports_.attention_output, "' is ", Name(info.dtype),
                       info.shape.ToString(), ", which is not f32 [rows, ..., source positions]");
    }
  }

  // The graph becomes the body of a loop whose back edges model.textproto names.
  absl::Status CompileStepGraph(const GraphInfo& info) {
    const Graph& graph = decoder_.decoder;
    Loop loop;
    loop.body = graph;
    BW_ASSIGN_OR_RETURN(const size_t token, FindTokenParameter());
    for (size_t i = 0; i < graph.parameters.size(); ++i) {
      LoopInput rule;
      rule.input = static_cast<int>(i);
      rule.body_parameter = static_cast<int>(i);
      rule.external_id = static_cast<int64_t>(i);
      if (i == token) {
        rule.kind = LoopInput::Kind::kSliced;
        const PartialShape& shape = Parameter(i).outputs[0].shape;
        rule.drop_axis = !shape.has_rank() || shape.rank() < 2;
        rule.axis = rule.drop_axis ? 0 : 1 - TokenRowAxis(shape);
        BW_RETURN_IF_ERROR(UseTokenParameter(graph.parameters[i], rule));
        loop.inputs.push_back(rule);
        continue;
      }
      BW_ASSIGN_OR_RETURN(const int next, FindStateResult(graph, ports_, i));
      if (CountsSteps(graph, ports_, graph.parameters[i])) {
        rule.kind = LoopInput::Kind::kIteration;
        decoder_.count_nodes.push_back(graph.parameters[i]);
      } else if (next >= 0) {
        rule.kind = LoopInput::Kind::kCarried;
        rule.back_edge = next;
        decoder_.state_values.push_back({graph.parameters[i], 0});
      } else {
        decoder_.invariant_values.push_back({graph.parameters[i], 0});
      }
      loop.inputs.push_back(rule);
    }
    BW_ASSIGN_OR_RETURN(
        decoder_.logits_result,
        FindResult(decoder_.decoder, "decoder.logits_output", ports_.logits_output));
    BW_ASSIGN_OR_RETURN(decoder_.attention_result, FindAttention(decoder_.decoder, ports_));
    BW_RETURN_IF_ERROR(CheckStatesAreNamed(loop));
    return CompileBody(std::move(loop), info);
  }

  // An input that no line of the configuration names is memory, which never changes. If an unread
  // result has its form, it is a state that was left out.
  absl::Status CheckStatesAreNamed(const Loop& loop) const {
    const Graph& graph = decoder_.decoder;
    std::vector<bool> is_read(graph.results.size());
    is_read[static_cast<size_t>(decoder_.logits_result)] = true;
    if (decoder_.attention_result >= 0) {
      is_read[static_cast<size_t>(decoder_.attention_result)] = true;
    }
    for (const LoopInput& rule : loop.inputs) {
      if (rule.kind == LoopInput::Kind::kCarried) {
        is_read[static_cast<size_t>(rule.back_edge)] = true;
      }
    }
    for (const LoopInput& rule : loop.inputs) {
      const int node = graph.parameters[static_cast<size_t>(rule.body_parameter)];
      const std::string name = PortName(graph, node);
      const bool is_memory =
          std::find(ports_.memory.begin(), ports_.memory.end(), name) != ports_.memory.end();
      if (rule.kind != LoopInput::Kind::kInvariant || is_memory) {
        continue;
      }
      for (size_t i = 0; i < graph.results.size(); ++i) {
        if (!is_read[i] &&
            MayContinue(graph.node(node).outputs[0], SourceOf(static_cast<int>(i)))) {
          return Invalid("decoder.states: input '", name, "' is ",
                         graph.node(node).outputs[0].shape.ToString(), " as is result '",
                         PortName(graph, graph.results[i]),
                         "', which nothing reads; name them in states, or the input in memory");
        }
      }
    }
    return absl::OkStatus();
  }

  // Whether a value is computed, and has the form of a state: one axis is open, for rows.
  bool MayContinue(const ValueInfo& state, ValueId value) const {
    const Graph& graph = decoder_.decoder;
    const ValueInfo& info = graph.info(value);
    if (graph.node(value.node).op == "Parameter" || info.dtype != state.dtype ||
        !state.shape.has_rank() || state.shape.rank() < 2 || info.shape != state.shape) {
      return false;
    }
    const Shape& dims = state.shape.dims();
    return std::count(dims.begin(), dims.end(), PartialShape::kDynamic) == 1;
  }

  absl::StatusOr<size_t> FindTokenParameter() const {
    if (ports_.token_input.empty()) {
      return Invalid("decoder.token_input: a step graph's token input must be named");
    }
    for (size_t i = 0; i < decoder_.decoder.parameters.size(); ++i) {
      if (PortName(decoder_.decoder, decoder_.decoder.parameters[i]) == ports_.token_input) {
        return i;
      }
    }
    return Invalid("decoder.token_input: the decoder has no input '", ports_.token_input, "'");
  }

  absl::Status FindVocabulary(const Graph& body) {
    const Node& result = body.node(body.results[static_cast<size_t>(decoder_.logits_result)]);
    ValueInfo logits = body.info(result.inputs[0]);
    if (decoder_.projection != nullptr) {
      logits.shape = PartialShape({PartialShape::kDynamic, decoder_.projection->vocabulary()});
    }
    if (logits.dtype != DType::kF32) {
      return absl::UnimplementedError(
          absl::StrCat("logits are ", Name(logits.dtype), "; supported is f32"));
    }
    const int64_t columns = logits.shape.has_rank() && logits.shape.rank() > 0
                                ? logits.shape.dims().back()
                                : PartialShape::kDynamic;
    const int tokens = options_.num_tokens;
    if (columns == PartialShape::kDynamic && tokens == 0 && !options_.for_inspection) {
      return Invalid("target.size: the graph does not state the number of target tokens");
    }
    if (columns != PartialShape::kDynamic && tokens > 0 && columns != tokens &&
        !ArePadded(columns, tokens)) {
      return Invalid("the decoder has logits for ", columns, " tokens, the target vocabulary ",
                     tokens);
    }
    decoder_.vocabulary_size =
        columns == PartialShape::kDynamic ? tokens : static_cast<int>(columns);
    return absl::OkStatus();
  }

  SteppedDecoder& decoder_;
  const DecoderPorts& ports_;
  const DecoderOptions& options_;
  int token_node_ = -1;
};

}  // namespace

absl::Status CompileDecoder(Graph graph, const DecoderPorts& ports, const DecoderOptions& options,
                            SteppedDecoder& decoder) {
  for (const int parameter : graph.parameters) {
    const int64_t tokens = OneHotTokens(graph, parameter);
    if (PortName(graph, parameter) != ports.token_input || tokens == 0) {
      continue;
    }
    TakeIds(graph, parameter);
    if (options.begin_token == tokens && options.num_tokens == tokens + 1) {
      BW_RETURN_IF_ERROR(InferGraph(graph, Operators()).status());
      const float impossible = options.score_kind == ScoreKind::kProbabilities
                                   ? 0
                                   : -std::numeric_limits<float>::infinity();
      BW_RETURN_IF_ERROR(AddScoreOfBegin(graph, ports.logits_output, impossible));
    }
    break;
  }
  return DecoderCompiler(std::move(graph), ports, options, decoder).Run();
}

}  // namespace beamwright::ops
