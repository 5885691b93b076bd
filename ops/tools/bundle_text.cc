#include "ops/tools/bundle_text.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "ops/tools/printable.h"

namespace beamwright::ops {
namespace {

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::Utf8SafeCEscape(text), "\"");
}

absl::string_view Field(LengthKind kind) {
  switch (kind) {
    case LengthKind::kLengths:
      return "LENGTH_INPUT_LENGTHS";
    case LengthKind::kMask:
      return "LENGTH_INPUT_MASK";
    case LengthKind::kAdditiveMask:
      return "LENGTH_INPUT_ADDITIVE_MASK";
    case LengthKind::kNone:
      break;
  }
  return "LENGTH_INPUT_NONE";
}

absl::string_view Field(ScoreKind kind) {
  switch (kind) {
    case ScoreKind::kLogits:
      break;
    case ScoreKind::kLogProbs:
      return "LOGITS_KIND_LOG_PROBS";
    case ScoreKind::kProbabilities:
      return "LOGITS_KIND_PROBS";
  }
  return "LOGITS_KIND_LOGITS";
}

class TextWriter {
 public:
  template <typename... Pieces>
  void Line(const Pieces&... pieces) {
    absl::StrAppend(&text_, std::string(indent_, ' '), pieces..., "\n");
  }
  void Begin(absl::string_view message) {
    Line(message, " {");
    indent_ += 2;
  }
  void End() {
    indent_ -= 2;
    Line("}");
  }
  void String(absl::string_view field, absl::string_view value) {
    if (!value.empty()) {
      Line(field, ": ", Quoted(value));
    }
  }
  std::string text() && { return std::move(text_); }

 private:
  std::string text_;
  size_t indent_ = 0;
};

void WriteEncoder(const std::string& graph, const EncoderRoles& encoder, TextWriter& out) {
  out.Begin("encoder");
  out.String("graph", graph);
  out.String("input", encoder.input);
  if (encoder.length_kind != LengthKind::kNone) {
    out.Line("length_kind: ", Field(encoder.length_kind));
    out.String("length_input", encoder.length_input);
  }
  out.End();
}

void WriteState(const StateRole& state, TextWriter& out) {
  out.Begin("states");
  out.String("input", state.input);
  out.String("output", state.output);
  if (state.starts_at_zero) {
    out.Line("constant: 0");
  } else if (state.encoder_output != state.input) {
    out.String("encoder_output", state.encoder_output);
  }
  out.End();
}

void WriteDecoder(const std::string& graph, const DecoderRoles& decoder, TextWriter& out) {
  out.Begin("decoder");
  out.String("graph", graph);
  out.String("token_input", decoder.token_input);
  for (const StateRole& state : decoder.states) {
    // Of a loop's graph only starts that differ from the result of the same name are told.
    if (!decoder.has_loop || state.starts_at_zero || state.encoder_output != state.input) {
      WriteState(state, out);
    }
  }
  for (const MemoryRole& memory : decoder.memory) {
    const bool renamed = !memory.encoder_output.empty() && memory.encoder_output != memory.input;
    if (!renamed && memory.length_kind == LengthKind::kNone) {
      continue;
    }
    out.Begin("memory");
    out.String("input", memory.input);
    if (memory.length_kind != LengthKind::kNone) {
      out.Line("length_kind: ", Field(memory.length_kind));
    } else {
      out.String("encoder_output", memory.encoder_output);
    }
    out.End();
  }
  out.String("logits_output", decoder.logits_output);
  out.Line("logits_kind: ", Field(decoder.score_kind));
  out.String("attention_output", decoder.attention_output);
  out.End();
}

void WriteSide(absl::string_view name, const TextSide& side, bool is_target, TextWriter& out) {
  out.Begin(name);
  out.Line("form: ", side.form);
  out.String("vocabulary", side.vocabulary);
  if (side.vocabulary.empty() && side.size > 0) {
    out.Line("size: ", side.size);
  }
  out.String("begin_token", side.begin_token);
  if (is_target && side.begin_token.empty()) {
    out.Line("# begin_token: what the first step reads; without a vocabulary an id, as in \"1\"");
  }
  for (const std::string& token : side.end_tokens) {
    out.String("end_tokens", token);
  }
  if (is_target && side.end_tokens.empty()) {
    out.Line("# end_tokens: what ends a hypothesis; without a vocabulary an id, as in \"2\"");
  }
  out.String("pad_token", side.pad_token);
  out.String("unknown_token", side.unknown_token);
  if (side.lowercase) {
    out.Line("lowercase: true");
  }
  out.End();
}

}  // namespace

std::string FormatBundle(const BundleDescription& bundle) {
  TextWriter out;
  out.Line("# proto-file: beamwright/v1/model.proto");
  out.Line("# proto-message: beamwright.v1.ModelConfig");
  out.Line("# Written by `beamwright-graph init`, which guessed:");
  for (const std::string& reason : bundle.reasons) {
    out.Line("# - ", Printable(reason));
  }
  out.Line("format_version: 1");
  out.String("name", bundle.name);
  if (bundle.encoder.has_value()) {
    WriteEncoder(bundle.encoder_graph, *bundle.encoder, out);
  }
  WriteDecoder(bundle.decoder_graph, bundle.decoder, out);
  WriteSide("source", bundle.source, false, out);
  WriteSide("target", bundle.target, true, out);
  return std::move(out).text();
}

std::vector<std::string> OpenQuestions(const BundleDescription& bundle) {
  std::vector<std::string> questions;
  if (bundle.target.begin_token.empty()) {
    questions.push_back("target.begin_token: the token that the first step reads (--begin)");
  }
  if (bundle.target.end_tokens.empty()) {
    questions.push_back("target.end_tokens: the token that ends a hypothesis (--end)");
  }
  if (bundle.target.vocabulary.empty() && bundle.target.size <= 0) {
    questions.push_back(
        "target.size: the number of target tokens, which the graph doesn't tell (--target-vocab, "
        "or `size` in the file)");
  }
  return questions;
}

}  // namespace beamwright::ops
