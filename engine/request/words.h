// The words of answers: where their tokens are, when they were said, how sure they are.
#ifndef BEAMWRIGHT_ENGINE_REQUEST_WORDS_H_
#define BEAMWRIGHT_ENGINE_REQUEST_WORDS_H_

#include "beamwright/v1/decode.pb.h"
#include "engine/model/decode_model.h"

namespace beamwright::engine {

// Fills `words` of each hypothesis of a list, best first; none where a hypothesis has no text. A
// word ends at white space, and between two tokens where a character of a script without spaces is
// on either side. Times count from where token_frames count from. Only the first hypothesis' words
// have posteriors, and none have them where the list is too long to be aligned (kMostWordPairs).
void FillWords(const DecodeModel& model,
               google::protobuf::RepeatedPtrField<v1::Hypothesis>& hypotheses);

// Words of the first hypothesis times words of another, without what both begin and end with,
// summed over the list.
inline constexpr size_t kMostWordPairs = size_t{1} << 22;

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_REQUEST_WORDS_H_
