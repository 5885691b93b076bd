// The compiled parts of a DecodeModel, as the beam driver and the scheduler use them. Private to
// engine/.
#ifndef BEAMWRIGHT_SERVER_ENGINE_PARTS_H_
#define BEAMWRIGHT_SERVER_ENGINE_PARTS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ops/decoder/stepped_decoder.h"
#include "ops/kernels/mix_scores.h"
#include "ops/loop/model.h"
#include "server/engine/attention.h"
#include "server/engine/decode_model.h"
#include "server/engine/lexical_table.h"
#include "server/engine/options_cache.h"
#include "server/engine/precision.h"
#include "server/fusion/ngram_model.h"
#include "server/search/token_trie.h"

namespace beamwright::engine {

// A per-request input of the decoder graph (every Parameter but the token's).
struct DecoderInput {
  std::string name;
  int node = -1;            // Parameter node of the decoder graph
  bool is_state = false;    // feeds a carried state directly
  int encoder_output = -1;  // index into the encoder's results; -1: see below
  v1::LengthInput length_kind = v1::LENGTH_INPUT_NONE;  // else: the source's length, or a mask
  bool has_constant = false;
  float constant = 0;  // initial value of every element
  // The encoder gives [layers, rows, ...] for what the decoder takes as [rows, layers, ...].
  bool layers_first = false;
};

// What requests may add to the decoder's log-probabilities: one of three kinds.
struct ScorerPart {
  std::string name;
  float min_weight = 0;
  float max_weight = 0;
  std::shared_ptr<const fusion::NgramModel> ngram;
  int decoder = -1;     // of a recurrent language model: see Parts::decoder_parts
  int ctc_output = -1;  // index into the encoder's results
  int ctc_blank = 0;
  ops::ScoreKind ctc_kind = ops::ScoreKind::kLogits;
};

using ops::StartValues;

// Its decoder is what it is: the engine steps a model as it steps any decoder.
struct DecodeModel::Parts : ops::SteppedDecoder {
  std::string name;
  std::string version;
  std::string numerics;
  PartPrecisions precision;
  v1::ModelConfig config;
  CompileOptions options;
  mutable OptionsCache resolved_options;
  std::shared_ptr<const model::TextCodec> source;
  std::shared_ptr<const model::TextCodec> target;
  std::map<std::string, std::shared_ptr<const search::TokenTrie>> token_lists;

  // Null: requests bring the decoder's inputs. Members of an ensemble may share it.
  std::shared_ptr<const ops::Model> encoder;
  int encoder_input = 0;          // index into its parameters
  int encoder_length_input = -1;  // likewise; -1: none
  int64_t source_table = -1;      // rows of the table that it looks tokens up in; -1: not known
  // What the encoder's graph proves of sources that are encoded together.
  ops::RowProof encoder_proof;
  // Why sources are encoded one at a time: the proof's reason, or what the self-check found. Empty:
  // they are encoded together.
  std::string encoder_apart = "nothing was proven of the encoder";

  std::vector<DecoderInput> inputs;  // one for each of input_nodes

  // Decoders that are stepped beside this one: members of its ensemble, then recurrent language
  // models, which have no encoder. Each is compiled like a model of its own.
  std::vector<std::unique_ptr<const Parts>> beside;
  // Of an ensemble: this decoder's, then its members', adding up to 1; else empty.
  std::vector<float> member_weights;
  ops::MixKind mix_kind = ops::MixKind::kLogProbs;
  std::vector<ScorerPart> scorers;
  std::shared_ptr<const LexicalTable> lexical_table;

  // Decoders by number: 0 is this one, then those of `beside`.
  int num_decoders() const { return static_cast<int>(beside.size()) + 1; }
  const Parts& decoder_parts(int number) const {
    return number == 0 ? *this : *beside[static_cast<size_t>(number) - 1];
  }
  // Null: there is none of this name.
  const ScorerPart* FindScorer(const std::string& scorer) const {
    for (const ScorerPart& part : scorers) {
      if (part.name == scorer) {
        return &part;
      }
    }
    return nullptr;
  }
  // Decoders that read the source: this one and the ensemble's members come first.
  int num_members() const {
    return member_weights.empty() ? 1 : static_cast<int>(member_weights.size());
  }
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_SERVER_ENGINE_PARTS_H_
