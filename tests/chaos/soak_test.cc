// Load for a while, of every kind at once: the resident memory must stop growing.
#include <gmock/gmock.h>

#include <limits>
#include <thread>

#include "absl/time/clock.h"
#include "tests/chaos/chaos.h"
#include "tests/e2e/scraped_metrics.h"

namespace beamwright::chaos {
namespace {

using e2e::BackToZero;
using e2e::DefaultModel;
using e2e::ServerProcess;

// Least squares: bytes per second.
double Slope(const std::vector<std::pair<double, double>>& points) {
  double t = 0;
  double y = 0;
  for (const auto& [time, value] : points) {
    t += time / static_cast<double>(points.size());
    y += value / static_cast<double>(points.size());
  }
  double above = 0;
  double below = 0;
  for (const auto& [time, value] : points) {
    above += (time - t) * (value - y);
    below += (time - t) * (time - t);
  }
  return above / below;
}

TEST(SoakTest, MemoryStopsGrowing) {
  constexpr int kClients = 4;
  const absl::Duration time = Form(absl::Seconds(12), absl::Minutes(20));
  ServerProcess server({"--model-path", DefaultModel()});
  const std::string address = server.address();
  const int metrics = server.metrics_port();
  Golden golden;
  AddGolden(address, golden);
  Tally tally;
  std::atomic<bool> stop{false};
  std::vector<std::thread> clients;
  for (int client = 0; client < kClients; ++client) {
    clients.emplace_back([&, client] {
      auto stub = v1::DecodeService::NewStub(Connect(address));
      for (int i = client; !stop; ++i) {
        if (i % 1000 == 0) {
          stub = v1::DecodeService::NewStub(Connect(address));  // connections come and go
        }
        if (i % 7 == 0) {
          // A call that is given up.
          grpc::ClientContext context;
          context.set_deadline(std::chrono::system_clock::now() + std::chrono::microseconds(500));
          v1::DecodeResponse response;
          stub->Decode(&context, WordRequest(i % kNumRequests), &response);
        } else {
          Call(*stub, i % kNumRequests, golden, tally);
        }
      }
    });
  }
  // At first resident memory grows by some 16 MiB at a time, which in a few seconds is a slope as
  // of a leak. But a leak is in every window, such a step in one.
  constexpr double kMiB = 1 << 20;
  const double most_resident = Form(16.0, 0.25) * kMiB;
  std::vector<std::pair<double, double>> resident;
  std::vector<std::pair<double, double>> heap;
  double resident_slope = std::numeric_limits<double>::infinity();
  for (int window = 0; window < Form(3, 1) && resident_slope >= most_resident; ++window) {
    resident.clear();
    heap.clear();
    // The first quarter warms up allocators and buffers.
    const absl::Time start = absl::Now();
    while (absl::Now() < start + time) {
      absl::SleepFor(time / 120);
      const absl::Duration at = absl::Now() - start;
      if (at > time / 4) {
        const double seconds = absl::ToDoubleSeconds(at);
        resident.emplace_back(seconds, static_cast<double>(ResidentBytes(metrics)));
        heap.emplace_back(seconds, static_cast<double>(HeapBytes(metrics)));
      }
    }
    resident_slope = 60 * Slope(resident);
  }
  stop = true;
  for (std::thread& client : clients) {
    client.join();
  }
  EXPECT_EQ(tally.of(grpc::StatusCode::OK), tally.all()) << tally.ToString();
  EXPECT_EQ(tally.wrong(), 0);
  EXPECT_TRUE(BackToZero(metrics));
  const double heap_slope = 60 * Slope(heap);
  constexpr double kKiB = 1 << 10;
  std::cout << tally.all() << " calls; in the last " << absl::FormatDuration(time)
            << " KiB, and KiB a minute: heap " << heap.back().second / kKiB << ", "
            << heap_slope / kKiB << "; resident " << resident.back().second / kKiB << ", "
            << resident_slope / kKiB << "\n";
  // A leak of 100 bytes a call would show as a megabyte a minute and more. What malloc has given
  // out moves by what runs at the moment; the resident memory grows for long by how malloc fills
  // its pages.
  EXPECT_LT(heap_slope, Form(16.0, 0.0625) * kMiB);
  EXPECT_LT(resident_slope, most_resident);
}

}  // namespace
}  // namespace beamwright::chaos
