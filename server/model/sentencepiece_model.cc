#include "server/model/sentencepiece_model.h"

#include <sentencepiece_processor.h>

#include <utility>

namespace beamwright::model {

struct SentencePieceModel::Impl {
  sentencepiece::SentencePieceProcessor processor;
};

SentencePieceModel::SentencePieceModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SentencePieceModel::~SentencePieceModel() = default;

std::unique_ptr<SentencePieceModel> SentencePieceModel::Load(const std::string& content,
                                                             std::string& error) {
  auto impl = std::make_unique<Impl>();
  const sentencepiece::util::Status status = impl->processor.LoadFromSerializedProto(content);
  if (!status.ok()) {
    error = status.ToString();
    return nullptr;
  }
  if (impl->processor.GetPieceSize() == 0) {
    error = "it has no pieces";
    return nullptr;
  }
  return std::unique_ptr<SentencePieceModel>(new SentencePieceModel(std::move(impl)));
}

int SentencePieceModel::size() const { return impl_->processor.GetPieceSize(); }

int SentencePieceModel::unknown_id() const { return impl_->processor.unk_id(); }

int SentencePieceModel::Find(const std::string& piece) const {
  // The library answers with the unknown piece for whatever it lacks.
  const int id = impl_->processor.PieceToId(piece);
  return id >= 0 && id < size() && impl_->processor.IdToPiece(id) == piece ? id : -1;
}

const std::string& SentencePieceModel::piece(int id) const {
  return impl_->processor.IdToPiece(id);
}

bool SentencePieceModel::Encode(const std::string& text, std::vector<int>& ids,
                                std::string& error) const {
  const sentencepiece::util::Status status = impl_->processor.Encode(text, &ids);
  if (!status.ok()) {
    error = status.ToString();
  }
  return status.ok();
}

std::vector<std::string> SentencePieceModel::EncodePieces(const std::string& text) const {
  std::vector<std::string> pieces;
  if (!impl_->processor.Encode(text, &pieces).ok()) {
    pieces.clear();
  }
  return pieces;
}

std::string SentencePieceModel::Decode(const std::vector<int>& ids) const {
  std::string text;
  if (!impl_->processor.Decode(ids, &text).ok()) {
    text.clear();
  }
  return text;
}

}  // namespace beamwright::model
