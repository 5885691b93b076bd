// Gauges that are read when a scraper asks: the engine's load, the server's phase and what the
// process uses of the machine.
#ifndef BEAMWRIGHT_SERVER_SERVING_GAUGES_H_
#define BEAMWRIGHT_SERVER_SERVING_GAUGES_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "engine/request/quarantine.h"
#include "include/beamwright/engine.h"
#include "server/serving/memory_account.h"
#include "server/serving/model_registry.h"
#include "server/serving/serving_state.h"

namespace beamwright::serving {

// Metric families of one process: beamwright_ready, process_resident_memory_bytes and so on. What
// the system does not report (no cgroup, no /proc) is left out.
class ProcessGauges : public prometheus::Collectable {
 public:
  explicit ProcessGauges(const ServingState& state);
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const ServingState& state_;
  const absl::Time started_;
};

// Those of the engine and its models. What it is made from must outlive it.
class EngineGauges : public prometheus::Collectable {
 public:
  EngineGauges(const engine::Engine& engine, const ModelRegistry& models,
               const engine::Quarantine& quarantine)
      : engine_(engine), models_(models), quarantine_(quarantine) {}
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const engine::Engine& engine_;
  const ModelRegistry& models_;
  const engine::Quarantine& quarantine_;
};

// Those of what listeners hold for callers. The account must outlive it.
class MemoryGauges : public prometheus::Collectable {
 public:
  explicit MemoryGauges(const MemoryAccount& account) : account_(account) {}
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const MemoryAccount& account_;
};

// Those of the gRPC listener.
class ConnectionGauges : public prometheus::Collectable {
 public:
  // Both functions are called on a scraper's thread.
  ConnectionGauges(std::function<int()> count_open, std::function<int64_t()> count_cut_off,
                   int capacity)
      : count_open_(std::move(count_open)),
        count_cut_off_(std::move(count_cut_off)),
        capacity_(capacity) {}
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::function<int()> count_open_;
  const std::function<int64_t()> count_cut_off_;
  const int capacity_;
};

// Those of the WebSocket listener.
class WebSocketGauges : public prometheus::Collectable {
 public:
  // Called on a scraper's thread.
  WebSocketGauges(std::function<int()> count_open, int capacity)
      : count_open_(std::move(count_open)), capacity_(capacity) {}
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::function<int()> count_open_;
  const int capacity_;
};

}  // namespace beamwright::serving

#endif  // BEAMWRIGHT_SERVER_SERVING_GAUGES_H_
