// Sequences: how their parameters are read, and what becomes of those that nobody ends.
// tests/stock_clients/triton_sequences.py has those that tritonclient sends.
#include "server/oip/sequences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "absl/synchronization/notification.h"
#include "server/oip/service.h"
#include "tests/server/model/temp_bundle.h"
#include "tests/server/sound/tones_model.h"

namespace beamwright::oip {
namespace {

using ::testing::HasSubstr;

TEST(SequencePartTest, NumbersAndTextsAreIds) {
  inference::ModelInferRequest request;
  auto& parameters = *request.mutable_parameters();
  EXPECT_EQ(ReadSequencePart(parameters)->id, "");
  parameters["sequence_id"].set_int64_param(0);
  EXPECT_EQ(ReadSequencePart(parameters)->id, "");
  parameters["sequence_id"].set_int64_param(7);
  parameters["sequence_start"].set_bool_param(true);
  EXPECT_EQ(ReadSequencePart(parameters)->id, "7");
  EXPECT_TRUE(ReadSequencePart(parameters)->is_start);
  EXPECT_FALSE(ReadSequencePart(parameters)->is_end);
  parameters["sequence_id"].set_string_param("talk");
  EXPECT_EQ(ReadSequencePart(parameters)->id, "talk");
  parameters["sequence_id"].set_double_param(1);
  EXPECT_THAT(ReadSequencePart(parameters).status().message(),
              HasSubstr("parameters['sequence_id']: is neither a number nor a text"));
  parameters["sequence_id"].set_int64_param(7);
  parameters["sequence_end"].set_int64_param(1);
  EXPECT_THAT(ReadSequencePart(parameters).status().message(),
              HasSubstr("parameters['sequence_end']: is not a bool"));
}

TEST(SequencesTest, OneOfWhichNothingIsHeardIsGivenUp) {
  const model::TempFolder temp;
  sound::WriteTonesBundle(temp.path(), "tones");
  serving::ModelPaths paths;
  paths.repositories.push_back(temp.path());
  const auto models = *serving::ModelRegistry::Load(paths);
  const auto engine = *engine::Engine::Start({1, 64, 100});
  serving::ServingState state;
  serving::Metrics metrics;
  serving::Core core(state, *models, *engine, metrics);
  state.Enter(serving::Phase::kServing);
  Sequences sequences(core, absl::Milliseconds(50));
  const auto infer = [&](const SequencePart& part) {
    InferJob job;
    job.job.model = *models->Lookup("tones", "");
    v1::Audio& audio = *job.job.request.add_sources()->mutable_audio();
    audio.mutable_format()->set_samples(v1::SAMPLE_FORMAT_F32);
    audio.set_data(sound::AsF32(sound::Tones({5})));
    absl::Status status;
    absl::Notification done;
    sequences.Infer(part, std::move(job), {serving::Method::kModelInfer},
                    [&](const absl::StatusOr<inference::ModelInferResponse>& answer) {
                      status = answer.status();
                      done.Notify();
                    });
    done.WaitForNotification();
    return status;
  };
  EXPECT_TRUE(infer({"7", true, false}).ok());
  // Its call is open until it is given up.
  EXPECT_TRUE(state.WaitUntilAnswered(absl::Minutes(1)));
  EXPECT_THAT(infer({"7", false, true}).message(), HasSubstr("has not begun, or has ended"));
  EXPECT_TRUE(infer({"7", true, true}).ok());
}

}  // namespace
}  // namespace beamwright::oip
