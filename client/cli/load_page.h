// The report of a load test as one HTML page: tables and charts, no script, nothing from outside.
#ifndef BEAMWRIGHT_CLIENT_CLI_LOAD_PAGE_H_
#define BEAMWRIGHT_CLIENT_CLI_LOAD_PAGE_H_

#include <string>

#include "client/cli/output.pb.h"

namespace beamwright::client {

struct LoadPageHead {
  std::string server;
  std::string version;  // its name and version; empty: unknown
  std::string model;    // empty: the only one
  std::string setup;    // what all runs have in common
  std::string time;     // when it ran
  std::string found;    // by a search for the highest rate; empty: there was none
};

std::string LoadPage(const LoadPageHead& head, const LoadTestSweep& sweep);

// "16 calls in flight", "500 calls/s"
std::string LoadName(const LoadTestReport& run);

}  // namespace beamwright::client

#endif  // BEAMWRIGHT_CLIENT_CLI_LOAD_PAGE_H_
