// A bundle whose step some sources keep from coming to an end: the decoder, an ONNX graph, has a
// Loop with a product in its body, which then has 2^40 iterations.
#ifndef BEAMWRIGHT_TESTS_E2E_HANGING_MODEL_H_
#define BEAMWRIGHT_TESTS_E2E_HANGING_MODEL_H_

#include <string>

#include "beamwright/v1/decode.pb.h"
#include "tests/engine/bundle/temp_bundle.h"

namespace beamwright::e2e {

// When its graphs do not end. At load: one of these sources is in its warmup.jsonl. For a word: it
// reads texts of the words t1 to t20, and those with t20 hang.
enum class Hangs { kForSomeSources, kAtLoad, kForAWord };

// Writes it to `folder`, a place for a version.
void WriteHangingModel(const bundle::TempFolder& temp, const std::string& folder, Hangs hangs);

// One source for it, which hangs or not.
v1::Source SourceThatHangs(bool hangs);

}  // namespace beamwright::e2e

#endif  // BEAMWRIGHT_TESTS_E2E_HANGING_MODEL_H_
