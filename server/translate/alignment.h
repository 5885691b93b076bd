// Which word of a translation comes from which place of its source, by the attention that a search
// reports for tokens.
#ifndef BEAMWRIGHT_SERVER_TRANSLATE_ALIGNMENT_H_
#define BEAMWRIGHT_SERVER_TRANSLATE_ALIGNMENT_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "beamwright/v1/decode.pb.h"
#include "engine/bundle/text_codec.h"
#include "server/translate/marked_text.h"

namespace beamwright::translate {

// The words of hypothesis.text(), in bytes of it and of the source. Where no word has a place in
// the alignment, words come from the same share of the source as theirs of the translation.
// separate: white space separates words; else each token is a word.
std::vector<Word> AlignWords(const bundle::TextCodec& source_codec, absl::string_view source,
                             const bundle::TextCodec& target_codec,
                             const v1::Hypothesis& hypothesis, bool separate);

}  // namespace beamwright::translate

#endif  // BEAMWRIGHT_SERVER_TRANSLATE_ALIGNMENT_H_
