#include "tools/graph/watchdog.h"

#include <cstdio>
#include <cstdlib>

#include "ops/base/printable.h"

namespace beamwright::ops {
namespace {

constexpr absl::Duration kMoment = absl::Milliseconds(500);

}  // namespace

Watchdog::Watchdog(absl::Duration timeout, const std::string& message)
    : thread_([this, timeout, text = Printable(message)] {
        if (!done_.WaitForNotificationWithTimeout(timeout + kMoment)) {
          std::fprintf(stderr, "beamwright-graph: %s\n", text.c_str());
          std::_Exit(1);
        }
      }) {}

Watchdog::~Watchdog() {
  done_.Notify();
  thread_.join();
}

}  // namespace beamwright::ops
