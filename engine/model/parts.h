// The compiled parts of a DecodeModel, as drivers and the scheduler use them: what belongs to the
// model, each of its encoders and each of its decoders. Protocols read it for
// descriptions.
#ifndef BEAMWRIGHT_ENGINE_MODEL_PARTS_H_
#define BEAMWRIGHT_ENGINE_MODEL_PARTS_H_

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "beamwright/v1/model.pb.h"
#include "engine/fusion/ngram_model.h"
#include "engine/fusion/row_scorers.h"
#include "engine/grammar/constraint.h"
#include "engine/model/decode_model.h"
#include "engine/model/lexicons.h"
#include "engine/picture/front_end.h"
#include "engine/search/frames/frame_options.h"
#include "engine/search/frames/tag_search.h"
#include "engine/search/tries.h"
#include "engine/sound/front_end.h"
#include "engine/sound/sound_stream.h"
#include "ops/decoder/stepped_decoder.h"
#include "ops/decoder/transducer.h"
#include "ops/kernels/panel_scan.h"
#include "ops/kernels/topk.h"
#include "ops/loop/model.h"
#include "ops/tensor/tensor.h"

namespace beamwright::engine {

// OptionsCache: what the options of recent requests came to. Clients ask for the same in call after
// call, and checking and merging dozens of fields costs about as much as a step of a small model.

struct ResolvedOptions;

// Of one model. Thread-safe.
class OptionsCache {
 public:
  // Of longer keys, those of requests with lists, the last one is kept, so that they
  // hold little memory; and none that is longer still.
  static constexpr size_t kLongKey = 512;
  static constexpr size_t kLongestKey = size_t{64} << 10;

  // `key`: the options as they were sent, in protobuf's binary form. Null if they are not known.
  std::shared_ptr<const ResolvedOptions> Find(const std::string& key) const {
    absl::ReaderMutexLock lock(&mutex_);
    for (const Entry& entry : entries_) {
      if (entry.resolved != nullptr && entry.key == key) {
        return entry.resolved;
      }
    }
    return nullptr;
  }

  // In the place of what was added longest ago, or of the last long key.
  void Add(std::string key, std::shared_ptr<const ResolvedOptions> resolved) {
    if (key.size() > kLongestKey) {
      return;
    }
    absl::MutexLock lock(&mutex_);
    if (key.size() > kLongKey) {
      entries_.back() = {std::move(key), std::move(resolved)};
      return;
    }
    entries_[next_] = {std::move(key), std::move(resolved)};
    next_ = (next_ + 1) % (entries_.size() - 1);
  }

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const ResolvedOptions> resolved;
  };

  mutable absl::Mutex mutex_;
  std::array<Entry, 9> entries_ ABSL_GUARDED_BY(mutex_);  // the last one: of a long key
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
};

// What follows from a model alone and is made when it is first asked for. Thread-safe; callers wait
// for each other.
template <typename T>
class MadeOnce {
 public:
  // make: returns what is kept, or null, which is not kept.
  template <typename Make>
  std::shared_ptr<const T> Get(const Make& make) const {
    absl::MutexLock lock(&mutex_);
    if (made_ == nullptr) {
      made_ = make();
    }
    return made_;
  }

 private:
  mutable absl::Mutex mutex_;
  mutable std::shared_ptr<const T> made_ ABSL_GUARDED_BY(mutex_);
};

// ActivityModel: says of each 32 ms of sound how probable speech is, by Silero's
// graph over windows (silero_vad_16k_sequence.onnx): [windows, 576] samples at 16 kHz, of which 64
// are the end of the window before, and two states become [windows] probabilities and new states.

// Immutable and thread-safe.
class ActivityModel {
 public:
  static constexpr int kSampleRate = 16000;
  static constexpr int kWindow = 512;
  static constexpr int kContext = 64;
  static constexpr double kWindowMs = 32;

  // InvalidArgument: the graph has other inputs or outputs.
  static absl::StatusOr<std::shared_ptr<const ActivityModel>> Create(
      const ops::ExecutionContext& context, ops::Graph graph);

  // states: two, as the run before left them, or empty. input: f32 [windows, kContext + kWindow].
  // Appends a probability for each window.
  absl::Status Run(const ops::ExecutionContext& context, const ops::Tensor& input,
                   std::vector<ops::Tensor>& states, std::vector<float>& probabilities) const;

 private:
  ActivityModel() = default;
  ops::Shape StateShape(int state) const;

  std::unique_ptr<const ops::Model> model_;
  size_t input_ = 0;  // index into its parameters; the others are the states, in the results' order
};

// One source. One thread at a time.
class ActivityStream {
 public:
  ActivityStream(std::shared_ptr<const ActivityModel> model, int sample_rate)
      : model_(std::move(model)),
        resampler_(sample_rate, ActivityModel::kSampleRate),
        samples_(ActivityModel::kContext, 0.0F) {}

  // Samples at full scale 1. Appends the probabilities of windows that are complete with them.
  absl::Status Add(absl::Span<const float> samples, std::vector<float>& probabilities);

 private:
  std::shared_ptr<const ActivityModel> model_;
  sound::Resampler resampler_;
  std::vector<float> samples_;  // not heard yet, after the context
  std::vector<ops::Tensor> states_;
};

// CtcOutput: a result of the encoder that says of each frame which token it is, or blank (Graves et
// al. 2006). A scorer of a decoder reads one (engine/beam), and a model without a
// decoder is searched on it alone (engine/frames).

struct EncoderPart;

struct CtcOutput {
  int result = -1;  // index into the encoder's results; -1: the frames come from the request
  int blank = 0;    // its column
  ops::ScoreKind kind = ops::ScoreKind::kLogits;
  int64_t columns = -1;  // of a frame; -1: the graph leaves them open
};

// Finds the result that `config` names, or the only one that can be meant, and checks what is known
// of it. Errors name the field, "ctc.blank".
absl::StatusOr<CtcOutput> FindCtcOutput(const v1::CtcConfig& config, const EncoderPart& encoder);
// The same of a tagger's labels, which have no blank: it is -1. Errors name "tags.encoder_output".
absl::StatusOr<CtcOutput> FindTagOutput(const v1::TagsConfig& config, const EncoderPart& encoder);

// Whether `output` holds the frames of one source, [1, frames, columns] or [frames, 1, columns].
// Internal: it does not, or has no column for the blank.
absl::Status CheckFrames(const CtcOutput& ctc, const ops::Tensor& output);

// The frames of one source as natural-log probabilities [frames, columns], row-major. `output`: [1,
// frames, columns] or [frames, 1, columns]. Internal: it has another form, or no column for the
// blank. InvalidArgument: a frame's scores are NaN or no distribution, naming the frame.
absl::Status CtcLogProbs(const CtcOutput& ctc, const ops::Tensor& output,
                         std::vector<float>& probs);

// An encoder's input besides the source and its length.
struct FurtherInput {
  std::string name;
  int input = 0;  // index into the encoder's parameters
  bool has_constant = false;
  float constant = 0;       // of every element, where a request leaves it out
  int64_t table_rows = -1;  // of the table that its integers are looked up in; -1: not known
  // Its axis 1 is open and the graph runs only if that has the source's length, as ids of another
  // factor have: found by the self-check.
  bool follows_source = false;
};

// How an encoder reads a source in chunks: run number i reads frames [i * shift, i * shift + chunk)
// of it, silence behind its end, and the states that the run before left. Its graph has the rows of
// states first, wherever the file has them.
struct StreamingPart {
  struct State {
    int input = 0;      // index into the encoder's parameters
    int result = 0;     // index into its results
    ops::Tensor start;  // [1, ...]
  };
  int64_t chunk = 0;
  int64_t shift = 0;
  int64_t tail = 0;  // frames of silence behind the end that are read as if they were the source's
  float silence = 0;
  int64_t width = 0;         // features of a frame
  bool width_first = false;  // the graph reads [rows, width, chunk], not [rows, chunk, width]
  std::vector<State> states;
  std::vector<ops::Shape> result_shapes;  // of a run for one stream, by result

  int64_t state_bytes() const {
    int64_t bytes = 0;
    for (const State& state : states) {
      bytes += state.start.num_bytes();
    }
    return bytes;
  }
  bool writes_state(int result) const {
    return std::any_of(states.begin(), states.end(),
                       [result](const State& state) { return state.result == result; });
  }
};

// A compiled encoder: of the model, or of a member of its ensemble.
struct EncoderPart {
  std::unique_ptr<const ops::Model> model;
  int input = 0;          // index into its parameters
  int length_input = -1;  // index into its parameters; -1: none
  v1::LengthInput length_kind = v1::LENGTH_INPUT_NONE;
  int length_axis = 1;      // of the source, whose axis 0 counts rows
  int64_t table_rows = -1;  // of the table that it looks source tokens up in; -1: not known
  std::vector<FurtherInput> further_inputs;
  // What its graph proves of sources that are encoded together.
  ops::RowProof proof;
  // Why sources are encoded one at a time: the proof's reason, or what the self-check found. Empty:
  // they are encoded together.
  std::string apart = "nothing was proven of the encoder";
  // Positions of a source that it is known to take.
  int64_t trial_length = 0;
  int64_t least_length = 1;                // of a source: the encoder fails on shorter ones
  std::optional<StreamingPart> streaming;  // none: it reads the whole source at once

  // The Parameter that takes the source, and what it takes.
  int source_node() const { return model->graph().parameters[static_cast<size_t>(input)]; }
  const ops::ValueInfo& source_info() const { return info_of(input); }
  const ops::ValueInfo& info_of(int parameter) const {
    return model->graph()
        .node(model->graph().parameters[static_cast<size_t>(parameter)])
        .outputs[0];
  }
};

// A per-request input of the decoder graph (every Parameter but the token's).
struct DecoderInput {
  std::string name;
  int node = -1;          // Parameter node of the decoder graph
  bool is_state = false;  // feeds a carried state directly
  int growing_axis = -1;  // of a state that becomes one longer in each step
  // A state that grows, or the number of the step: it starts as the bundle says, and no request
  // brings it.
  bool has_own_start = false;
  int encoder_output = -1;  // index into the encoder's results; -1: see below
  v1::LengthInput length_kind = v1::LENGTH_INPUT_NONE;  // else: the source's length, or a mask
  bool has_constant = false;
  float constant = 0;  // initial value of every element
  // With has_constant, for all requests; no value where its extents are not known.
  ops::Tensor constant_tensor;
  // The encoder gives [layers, rows, ...] for what the decoder takes as [rows, layers, ...].
  bool layers_first = false;
};

// A further input, and whose it is.
struct WantedInput {
  const EncoderPart* encoder = nullptr;
  const FurtherInput* input = nullptr;
};

// A compiled decoder, and where its inputs come from.
struct DecoderPart : ops::SteppedDecoder {
  std::vector<DecoderInput> inputs;  // one for each of input_nodes
  // Of a step that counts, or whose states grow: the most steps that it was seen to take, prefix
  // included, for a table of positions may end. 0: any number.
  int most_steps = 0;
  // Whose results they read; null: none. Members of an ensemble may share it.
  std::shared_ptr<const EncoderPart> encoder;
};

// A transducer's scorer that needs no configuration: what it has learnt of its labels itself, to be
// subtracted. In ScorerPart it has none of the kinds.
inline constexpr char kInternalLanguageModel[] = "internal_lm";

// A scorer that models with a lexicon or an n-gram model of words have without configuration.
inline constexpr char kWordCount[] = "word_count";

// What requests may add to the model's log-probabilities: one of the kinds.
struct ScorerPart {
  std::string name;
  float min_weight = 0;
  float max_weight = 0;
  std::string note;  // of an n-gram model or lexicon: what was read, and what was left out
  std::shared_ptr<const fusion::NgramModel> ngram;  // of tokens
  std::shared_ptr<const fusion::WordNgram> words;   // an n-gram model of words
  std::shared_ptr<const fusion::Lexicon> lexicon;
  std::shared_ptr<const fusion::WordCount> word_count;
  int decoder = -1;  // a recurrent language model: its number in Parts::decoders
  std::optional<CtcOutput> ctc;
};

// A compiled transducer.
struct TransducerPart {
  ops::Transducer graphs;
  int encoder_output = -1;             // index into the encoder's results
  int frame_axis = 1;                  // of that result
  std::vector<float> state_constants;  // by state of the predictor
  int context_size = 0;
  int32_t start_token = 0;
  int32_t context_start = 0;
  int blank = 0;
  int num_columns = 0;  // of tokens, the blank included; durations come behind them

  int num_outputs() const { return graphs.predictor->num_results() - graphs.first_output; }
};

// What a model without a decoder has in its place: it is searched by frames
// (engine/frames).
struct FramesPart {
  // Ids of the target vocabulary: [0, num_tokens). Scores have a column for each; the blank's is
  // one of them, which is never emitted, or one more behind them. -1: there is no blank.
  int num_tokens = 0;
  int num_columns = 0;
  int blank = 0;
  search::FrameKind kind = search::FrameKind::kCtc;
  std::vector<int> durations;  // of token and duration
  int max_symbols = 1;         // tokens of a frame, where a request does not say
  int64_t frame_width = 0;     // extent of a frame, as requests bring it where there is no encoder
  int64_t chunk_frames = 0;    // that come of a chunk, where the encoder reads chunk by chunk
  // Exactly one is set; a tagger has `ctc`, without a blank. Of CTC without an encoder `result` is
  // -1, and sources are frames; so is `encoder_output`.
  std::optional<CtcOutput> ctc;
  std::unique_ptr<const TransducerPart> transducer;
  std::unique_ptr<const search::TagTransitions> transitions;  // of a tagger with a CRF
};

using ops::StartValues;

struct DecodeModel::Parts {
  std::string name;
  std::string version;
  std::string numerics;
  // Of a model without an encoder that is searched by tokens: SHA-256 of its decoder and
  // vocabulary; else empty. Whose states have a fixed size, start from constants and are all that a
  // step reads: they can be returned and kept.
  std::string fingerprint;
  bool has_portable_states = false;
  PartPrecisions precision;
  int64_t weight_bytes = 0;  // DecodeModel::weight_bytes
  v1::ModelConfig config;
  CompileOptions options;
  mutable OptionsCache resolved_options;
  MadeOnce<ResolvedOptions> language_search;  // of server/serving/spoken_language.h
  MadeOnce<grammar::TokenTexts> token_texts;  // of the target, for requests with a grammar
  // The pattern or schema of the default options: number 1 for answers without a target prefix.
  MadeOnce<grammar::Constraint> default_pattern[2];
  std::shared_ptr<const bundle::TextCodec> source;
  std::shared_ptr<const bundle::TextCodec> target;
  std::map<std::string, std::shared_ptr<const search::TokenTrie>> token_lists;

  // The model's own; null: requests bring the decoder's inputs, or the frames.
  std::shared_ptr<const EncoderPart> own_encoder;
  std::unique_ptr<const FramesPart> frames;  // null: there is a decoder
  // How sound becomes features for the encoder; null: requests bring features.
  std::shared_ptr<const sound::FrontEnd> sound;
  // Hears where sound is speech; null: nothing does.
  std::shared_ptr<const ActivityModel> activity;
  // How a picture becomes the encoder's input; no value: requests bring features.
  std::optional<picture::FrontEnd> picture;

  // By number: the model's own, then the members of its ensemble, then recurrent language models,
  // which have no encoder. They are stepped side by side.
  std::vector<std::unique_ptr<const DecoderPart>> decoders;
  // Of an ensemble: the own decoder's, then its members', adding up to 1; else empty.
  std::vector<float> member_weights;
  ops::MixKind mix_kind = ops::MixKind::kLogProbs;
  std::vector<ScorerPart> scorers;
  std::shared_ptr<const LexicalTable> lexical_table;

  int num_decoders() const { return static_cast<int>(decoders.size()); }
  const DecoderPart& decoder(int number = 0) const {
    return *decoders[static_cast<size_t>(number)];
  }
  const EncoderPart* encoder() const { return own_encoder.get(); }
  // The encoder, if it reads chunk by chunk.
  const EncoderPart* chunk_encoder() const {
    return encoder() != nullptr && encoder()->streaming.has_value() ? encoder() : nullptr;
  }
  // Whose results a member reads.
  const EncoderPart* encoder_of(int member) const {
    return member == 0 ? encoder() : decoder(member).encoder.get();
  }
  // Inputs of all encoders besides the source: the model's own, then each member's that has one.
  // Those of one name are the same tensor of a request.
  std::vector<WantedInput> wanted_inputs() const {
    std::vector<WantedInput> wanted;
    for (int member = 0; encoder() != nullptr && member < num_members(); ++member) {
      const EncoderPart* const part = encoder_of(member);
      for (size_t i = 0; (member == 0 || part != encoder()) && i < part->further_inputs.size();
           ++i) {
        wanted.push_back({part, &part->further_inputs[i]});
      }
    }
    return wanted;
  }
  int vocabulary_size() const {
    return frames != nullptr ? frames->num_tokens : decoder().vocabulary_size;
  }
  // Null: no scorer has this name.
  const ScorerPart* FindScorer(const std::string& scorer) const {
    for (const ScorerPart& part : scorers) {
      if (part.name == scorer) {
        return &part;
      }
    }
    return nullptr;
  }
  // Decoders that read the source: the own one and the ensemble's members come first.
  int num_members() const {
    return member_weights.empty() ? 1 : static_cast<int>(member_weights.size());
  }
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_MODEL_PARTS_H_
