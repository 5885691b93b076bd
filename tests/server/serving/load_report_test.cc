#include <gtest/gtest.h>

#include "engine/request/prepared_source.h"
#include "server/serving/availability.h"
#include "xds/data/orca/v3/orca_load_report.pb.h"

namespace beamwright::serving {
namespace {

// An engine that says that it has so much to do.
class BusyEngine : public engine::Engine {
 public:
  void DecodeResolved(std::shared_ptr<const engine::DecodeModel>, v1::Source,
                      std::shared_ptr<const engine::ResolvedOptions>, const engine::CallOptions&,
                      Callback) override {}
  void DecodePrepared(std::shared_ptr<const engine::DecodeModel>, engine::PreparedSource,
                      std::shared_ptr<const engine::ResolvedOptions>, const engine::CallOptions&,
                      Callback) override {}
  void Recognize(std::shared_ptr<const engine::DecodeModel>,
                 std::shared_ptr<const engine::ResolvedOptions>, const engine::CallOptions&,
                 Callback) override {}
  void Score(std::shared_ptr<const engine::DecodeModel>, v1::ScoreSource, const v1::ScoreOptions&,
             const engine::CallOptions&, ScoreCallback) override {}
  void Drain() override {}
  void End(absl::Status) override {}
  Load load() const override { return load_; }
  bool idle() const override { return false; }
  engine::Quarantine& quarantine() override { return quarantine_; }
  std::vector<engine::TenantLoad> Tenants() const override { return {}; }

  Load load_;
  engine::Quarantine quarantine_{{}};
};

xds::data::orca::v3::OrcaLoadReport Parsed(const std::string& bytes) {
  xds::data::orca::v3::OrcaLoadReport report;
  EXPECT_TRUE(report.ParseFromString(bytes));
  return report;
}

TEST(LoadReporterTest, TellsHowManyRowsAreTakenAndHowMuchWaits) {
  BusyEngine engine;
  engine.load_.rows = 256;
  engine.load_.max_rows = 1024;
  engine.load_.waiting = 7;
  const Metrics metrics;
  LoadReporter reporter(engine, metrics);
  const auto report = Parsed(reporter.Report());
  EXPECT_EQ(report.application_utilization(), 0.25);
  EXPECT_EQ(report.named_metrics().at("queue"), 7);
  // Rates need two moments.
  EXPECT_EQ(report.rps_fractional(), 0);
  EXPECT_EQ(report.cpu_utilization(), 0);
  // Calls of the same moment get the same report.
  engine.load_.waiting = 8;
  EXPECT_EQ(Parsed(reporter.Report()).named_metrics().at("queue"), 7);
}

}  // namespace
}  // namespace beamwright::serving
