// What `beamwright-graph init` does: makes a model bundle (docs/bundle.md) of graph files, guessing
// what each port is for, prints every guess with its reason and what it could not know, and tries
// the whole as the server will.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_INIT_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_INIT_H_

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/bundle/text_side.h"
#include "tools/graph/roles.h"

namespace beamwright::tools {

// What kind of model the graphs are.
enum class InitKind { kGuess, kDecoder, kCtc, kTransducer, kTags };

struct InitOptions {
  std::string encoder;  // path; empty: requests bring the decoder's inputs
  std::string decoder;  // of a transducer the predictor; of CTC and taggers the only graph
  std::string joiner;   // of a transducer; empty: `decoder` is both
  InitKind kind = InitKind::kGuess;
  std::string out;   // folder to make; it must not exist, or be empty
  std::string name;  // empty: the folder's name
  std::string source_vocab;
  std::string target_vocab;
  std::string transitions;  // of a tagger with a CRF: a NumPy archive (.npz); empty: none
  std::string shortlist;    // of a Marian model: a binary lexical shortlist; empty: none
  std::string token_ids;    // of OPUS-MT: ids of its vocabularies' pieces; empty: their own
  // Of a translation model: its languages; empty: as the names of a Marian model's files say.
  std::string source_language;
  std::string target_language;
  SpecialTokens special;
  // Of CTC and transducers: blank, a token or the number of its column, and durations.
  std::string blank;
  std::vector<int> durations;
  std::string source_input;  // of an encoder with several inputs; empty: guess
  // Unset: the only open one. 0: the source is [length, rows, ...] (tools/bundle/encoder_input.h).
  std::optional<int> length_axis;
  // Extents of that input behind its rows, -1: as the graph has it; empty: all of them.
  std::vector<int64_t> input_shape;
  ops::RoleHints hints;
  // Known sources and targets, a tab between (tools/bundle/text_side.h); empty: none.
  std::string pairs;
  // Inputs and expected outputs of the decoder (.npz); empty: no replay. Nothing is written if they
  // differ.
  std::vector<std::string> replay;
};

absl::Status InitBundle(const InitOptions& options, std::ostream& output);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_INIT_H_
