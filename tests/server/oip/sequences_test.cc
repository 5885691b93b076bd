// Sequences: how their parameters are read, and the end of abandoned ones.
// tests/stock_clients/triton_sequences.py has those that tritonclient sends.
#include "server/oip/sequences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "absl/synchronization/notification.h"
#include "server/oip/service.h"
#include "tests/engine/bundle/temp_bundle.h"
#include "tests/engine/sound/tones_model.h"

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

class SequencesTest : public ::testing::Test {
 protected:
  SequencesTest() {
    sound::WriteTonesBundle(temp_.path(), "tones");
    serving::ModelPaths paths;
    paths.repositories.push_back(temp_.path());
    models_ = *serving::ModelRegistry::Load(paths);
    engine_ = *engine::Engine::Start({1, 64, 100});
    core_ = std::make_unique<serving::Core>(state_, *models_, *engine_, metrics_);
    state_.Enter(serving::Phase::kServing);
  }

  absl::Status Infer(Sequences& sequences, const SequencePart& part,
                     engine::TenantPtr tenant = nullptr, int sample_rate = 16000) {
    InferJob job;
    job.job.model = *models_->Lookup("tones", "");
    v1::Audio& audio = *job.job.request.add_sources()->mutable_audio();
    audio.mutable_format()->set_samples(v1::SAMPLE_FORMAT_F32);
    audio.mutable_format()->set_sample_rate(sample_rate);
    audio.set_data(sound::AsF32(sound::Tones({5})));
    serving::Caller caller{serving::Method::kModelInfer};
    caller.tenant = std::move(tenant);
    absl::Status status;
    absl::Notification done;
    sequences.Infer(part, std::move(job), caller,
                    [&](const absl::StatusOr<inference::ModelInferResponse>& answer) {
                      status = answer.status();
                      done.Notify();
                    });
    done.WaitForNotification();
    return status;
  }
  static engine::TenantPtr Named(const std::string& name) {
    engine::Tenant tenant;
    tenant.name = name;
    return std::make_shared<const engine::Tenant>(tenant);
  }

  bundle::TempFolder temp_;
  serving::ServingState state_;
  serving::Metrics metrics_;
  std::unique_ptr<serving::ModelRegistry> models_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<serving::Core> core_;
};

TEST_F(SequencesTest, OneOfWhichNothingIsHeardIsGivenUp) {
  Sequences sequences(*core_, absl::Seconds(2));  // longer than a busy machine takes for one
  EXPECT_TRUE(Infer(sequences, {"7", true, false}).ok());
  // Its call is open until it is given up.
  EXPECT_TRUE(state_.WaitUntilAnswered(absl::Minutes(1)));
  EXPECT_THAT(Infer(sequences, {"7", false, true}).message(),
              HasSubstr("has not begun, or has ended"));
  EXPECT_TRUE(Infer(sequences, {"7", true, true}).ok());
}

// Its sender may go on with it while the server drains; if not, the server does not wait for it.
TEST_F(SequencesTest, AnIdleOneDoesNotKeepADrain) {
  Sequences sequences(*core_, absl::Hours(1));
  EXPECT_TRUE(Infer(sequences, {"7", true, false}).ok());
  state_.Enter(serving::Phase::kRefusing);
  EXPECT_TRUE(state_.WaitUntilAnswered(absl::Minutes(1)));
  EXPECT_TRUE(absl::IsUnavailable(Infer(sequences, {"7", false, true})));
}

// Its sender may ask for it again, but a server that stops need not wait for that.
TEST_F(SequencesTest, OneThatHasFailedHoldsNoCall) {
  Sequences sequences(*core_, absl::Hours(1));
  const absl::Status why = Infer(sequences, {"7", true, false}, nullptr, /*sample_rate=*/5999);
  EXPECT_THAT(why.message(), HasSubstr("sample_rate"));
  EXPECT_TRUE(state_.WaitUntilAnswered(absl::ZeroDuration()));
  EXPECT_EQ(Infer(sequences, {"7", false, false}), why);
}

// Reading the files of tokens or tenants again makes new tenants of the same names.
TEST_F(SequencesTest, OneGoesOnWhereItsTenantIsReadAgainAndIsNobodyElses) {
  Sequences sequences(*core_);
  EXPECT_TRUE(Infer(sequences, {"7", true, false}, Named("a")).ok());
  EXPECT_THAT(Infer(sequences, {"7", false, false}, Named("b")).message(),
              HasSubstr("has not begun"));
  EXPECT_THAT(Infer(sequences, {"7", false, false}).message(), HasSubstr("has not begun"));
  EXPECT_TRUE(Infer(sequences, {"7", false, false}, Named("a")).ok());
  EXPECT_TRUE(Infer(sequences, {"7", false, true}, Named("a")).ok());
}

}  // namespace
}  // namespace beamwright::oip
