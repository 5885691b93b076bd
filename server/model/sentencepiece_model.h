// SentencePieceModel: a wall between the SentencePiece library, whose header declares an
// absl::string_view of its own, and everything that uses Abseil's. Private to model/.
#ifndef BEAMWRIGHT_SERVER_MODEL_SENTENCEPIECE_MODEL_H_
#define BEAMWRIGHT_SERVER_MODEL_SENTENCEPIECE_MODEL_H_

#include <memory>
#include <string>
#include <vector>

namespace beamwright::model {

// Thread-safe after Load.
class SentencePieceModel {
 public:
  // `content`: a SentencePiece model file. Null, and `error` set, if it is none.
  static std::unique_ptr<SentencePieceModel> Load(const std::string& content, std::string& error);
  ~SentencePieceModel();

  int size() const;
  int unknown_id() const;
  // -1 if there is no such piece.
  int Find(const std::string& piece) const;
  // id in [0, size()).
  const std::string& piece(int id) const;

  // False, and `error` set, on failure.
  bool Encode(const std::string& text, std::vector<int>& ids, std::string& error) const;
  // The same as pieces: where the id is unknown_id() the piece is the stretch of text itself. Empty
  // on failure.
  std::vector<std::string> EncodePieces(const std::string& text) const;
  // ids in [0, size()).
  std::string Decode(const std::vector<int>& ids) const;

 private:
  struct Impl;
  explicit SentencePieceModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace beamwright::model

#endif  // BEAMWRIGHT_SERVER_MODEL_SENTENCEPIECE_MODEL_H_
