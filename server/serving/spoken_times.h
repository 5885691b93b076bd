// Times that Whisper writes between its texts, <|0.00|> and so on, 20 ms apart from the begin of
// the sound: it does unless the answer's prefix has <|notimestamps|>.
#ifndef BEAMWRIGHT_SERVER_SERVING_SPOKEN_TIMES_H_
#define BEAMWRIGHT_SERVER_SERVING_SPOKEN_TIMES_H_

#include <vector>

#include "beamwright/v1/decode.pb.h"
#include "beamwright/v1/recognize.pb.h"
#include "engine/model/decode_model.h"

namespace beamwright::serving {

// Answers have times, if the model can write them.
void AskForTimes(const engine::DecodeModel& model, v1::DecodeOptions& options);

struct TimedSegments {
  std::vector<v1::RecognizedSegment> segments;
  // Where the sound is to be heard again, from the begin of the window: an answer that ends in two
  // times, or behind them without a third, did not come to its end. 0: it did.
  double resume_ms = 0;
};

// A window whose best hypothesis has times, as the segments between them: their texts and tokens
// without the times. The window itself if it has none. Numbers follow on that of `whole`. first:
// the token of the time 0 (search::ProcessorOptions::first_timestamp).
TimedSegments SplitAtTimes(const engine::DecodeModel& model, int32_t first,
                           v1::RecognizedSegment whole);

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_SPOKEN_TIMES_H_
