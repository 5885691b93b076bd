// The module around libsentencepiece, which is loaded when a bundle needs it. It is a separate
// library since that one brings its own copy of protobuf; a table of C functions is all that both
// sides share. No exception may leave it.
#include "engine/bundle/sentencepiece/shim.h"

#include <sentencepiece_processor.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace {

using Processor = sentencepiece::SentencePieceProcessor;

const Processor& Of(const void* handle) { return *static_cast<const Processor*>(handle); }

void Tell(BwSpText text, void* context, const std::string& message) {
  text(context, message.data(), message.size());
}

// Its protobuf throws where a check fails; nothing may fly through a C face.
void* Load(const char* model, size_t size, BwSpText error, void* context) {
  try {
    auto processor = std::make_unique<Processor>();
    const sentencepiece::util::Status status =
        processor->LoadFromSerializedProto(std::string_view(model, size));
    if (status.ok() && processor->GetPieceSize() > 0) {
      return processor.release();
    }
    Tell(error, context, status.ok() ? "it has no pieces" : status.ToString());
  } catch (const std::exception& exception) {
    Tell(error, context, exception.what());
  }
  return nullptr;
}

void Unload(void* handle) { delete static_cast<Processor*>(handle); }

int32_t Size(const void* handle) { return Of(handle).GetPieceSize(); }

int32_t UnknownId(const void* handle) { return Of(handle).unk_id(); }

int32_t Find(const void* handle, const char* piece, size_t size) {
  return Of(handle).PieceToId(std::string_view(piece, size));
}

void Piece(const void* handle, int32_t id, BwSpText text, void* context) {
  Tell(text, context, Of(handle).IdToPiece(id));
}

int Encode(const void* handle, const char* text, size_t size, BwSpId id, BwSpText error,
           void* context) {
  try {
    std::vector<int> ids;
    const sentencepiece::util::Status status =
        Of(handle).Encode(std::string_view(text, size), &ids);
    if (!status.ok()) {
      Tell(error, context, status.ToString());
      return 0;
    }
    for (const int each : ids) {
      id(context, each);
    }
    return 1;
  } catch (const std::exception& exception) {
    Tell(error, context, exception.what());
    return 0;
  }
}

void EncodePieces(const void* handle, const char* text, size_t size, BwSpText piece,
                  void* context) {
  try {
    std::vector<std::string> pieces;
    if (Of(handle).Encode(std::string_view(text, size), &pieces).ok()) {
      for (const std::string& each : pieces) {
        Tell(piece, context, each);
      }
    }
  } catch (const std::exception&) {
    // No pieces: they only serve a message.
  }
}

void Decode(const void* handle, const int32_t* ids, size_t size, BwSpText text, void* context) {
  try {
    std::string result;
    if (Of(handle).Decode(std::vector<int>(ids, ids + size), &result).ok()) {
      Tell(text, context, result);
    }
  } catch (const std::exception&) {
    // No text.
  }
}

constexpr BwSpFunctions kFunctions = {Load,  Unload, Size,         UnknownId, Find,
                                      Piece, Encode, EncodePieces, Decode};

}  // namespace

extern "C" __attribute__((visibility("default"))) const BwSpFunctions* beamwright_sentencepiece() {
  return &kFunctions;
}
