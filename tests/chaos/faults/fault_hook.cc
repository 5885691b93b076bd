// What the fault points of beamwright-server-with-faults do: each line of the file that
// BEAMWRIGHT_FAULTS names is a point and its fault, "read_file error", "engine.turn delay 2s" or
// "model.load no-memory".
// The file is read whenever a point is passed, so a test switches faults on and off while the
// server runs.
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ops/base/fault_point.h"

namespace beamwright {
namespace {

absl::Status Fault(const char* point) {
  // Passed for every part of a kernel's work: too often for a file to be read.
  if (std::strcmp(point, "parallel.part") == 0) {
    return absl::OkStatus();
  }
  static const char* const file = std::getenv("BEAMWRIGHT_FAULTS");
  std::ifstream faults(file == nullptr ? "" : file);
  std::string name;
  std::string kind;
  while (faults >> name >> kind) {
    std::string delay;
    if (kind == "delay") {
      faults >> delay;
    }
    absl::Duration time;
    if (name != point) {
      continue;
    }
    if (kind == "error") {
      return absl::DataLossError("a fault was asked for");
    }
    if (kind == "no-memory") {
      throw std::bad_alloc();
    }
    if (absl::ParseDuration(delay, &time)) {
      absl::SleepFor(time);
    }
  }
  return absl::OkStatus();
}

const bool installed = [] {
  fault_hook = Fault;
  return true;
}();

}  // namespace
}  // namespace beamwright
