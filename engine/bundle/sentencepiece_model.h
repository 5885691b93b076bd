// SentencePieceModel: the SentencePiece library behind a wall. It is loaded at run time, apart from
// all that is linked (engine/bundle/sentencepiece/shim.h says why). Private to bundle/.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_SENTENCEPIECE_MODEL_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_SENTENCEPIECE_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

struct BwSpFunctions;

namespace beamwright::bundle {

// Thread-safe after Load.
class SentencePieceModel {
 public:
  // `content`: a SentencePiece model file. The process holds equal files once: source and target of
  // a model, and models of one language, often share theirs. InvalidArgument if it is not such a
  // file, Unavailable if the library can't be loaded.
  static absl::StatusOr<std::shared_ptr<const SentencePieceModel>> Load(const std::string& content);
  ~SentencePieceModel();
  SentencePieceModel(const SentencePieceModel&) = delete;
  SentencePieceModel& operator=(const SentencePieceModel&) = delete;

  int size() const;
  int unknown_id() const;
  // -1 if there is no such piece.
  int Find(const std::string& piece) const;
  // id: in [0, size()).
  std::string Piece(int id) const;

  // Ids of `text`. InvalidArgument if the library fails.
  absl::StatusOr<std::vector<int>> Encode(const std::string& text) const;
  // The same as pieces: where the id is unknown_id() the piece is the stretch of text itself. Empty
  // on failure.
  std::vector<std::string> EncodePieces(const std::string& text) const;
  // ids in [0, size()).
  std::string Decode(const std::vector<int>& ids) const;

 private:
  SentencePieceModel(const BwSpFunctions& functions, void* handle)
      : functions_(functions), handle_(handle) {}

  const BwSpFunctions& functions_;
  void* const handle_;
};

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_SENTENCEPIECE_MODEL_H_
