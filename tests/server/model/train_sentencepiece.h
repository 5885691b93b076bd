// Kept apart from Abseil, as the library's header needs (server/model/sentencepiece_model.h).
#ifndef BEAMWRIGHT_TESTS_SERVER_MODEL_TRAIN_SENTENCEPIECE_H_
#define BEAMWRIGHT_TESTS_SERVER_MODEL_TRAIN_SENTENCEPIECE_H_

#include <string>
#include <vector>

namespace beamwright::model {

// The content of a SentencePiece model file trained on `sentences`; empty on failure.
std::string TrainSentencePiece(const std::vector<std::string>& sentences);

}  // namespace beamwright::model

#endif  // BEAMWRIGHT_TESTS_SERVER_MODEL_TRAIN_SENTENCEPIECE_H_
