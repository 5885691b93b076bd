// Tokens whose characters stand for bytes or spaces, and text of bytes. Private to bundle/.
#ifndef BEAMWRIGHT_ENGINE_BUNDLE_BYTE_PIECES_H_
#define BEAMWRIGHT_ENGINE_BUNDLE_BYTE_PIECES_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace beamwright::bundle {

// U+2581, where SentencePiece's pieces have a space.
inline constexpr absl::string_view kWordBegin = "\xE2\x96\x81";

// GPT-2 writes printable characters of Latin-1 as they are, and other bytes from U+0100 on.
char32_t GptCharacter(int byte);

// The byte that each of these characters stands for.
absl::flat_hash_map<char32_t, char> GptBytes();

// The bytes of a token whose characters stand for bytes; as it is, if one of them does not.
std::string BytesOfPiece(absl::string_view token, const absl::flat_hash_map<char32_t, char>& table);

// The byte of a piece such as <0xE6>; -1: it is no such piece.
int ByteOfPiece(absl::string_view piece);

// Appends the character in UTF-8.
void AppendUtf8(uint32_t code, std::string& text);

}  // namespace beamwright::bundle

#endif  // BEAMWRIGHT_ENGINE_BUNDLE_BYTE_PIECES_H_
