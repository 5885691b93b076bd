// What a server's /metrics says, for tests that compare it with what its clients saw.
#ifndef BEAMWRIGHT_TESTS_E2E_SCRAPED_METRICS_H_
#define BEAMWRIGHT_TESTS_E2E_SCRAPED_METRICS_H_

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace beamwright::e2e {

// Values by name and labels, as they are written: 'name{label="value"}'.
using Samples = std::map<std::string, double>;

// Without an answer the test fails, and there are no samples.
Samples Scrape(int metrics_port);

// The sum over all series of a metric that carry `label`, as it is written: 'label="value"'.
double Sum(const Samples& samples, const std::string& metric, const std::string& label = "");

// Waits, for a minute at most, until nothing waits, runs or holds rows: calls that their clients
// gave up end at the next step.
::testing::AssertionResult BackToZero(int metrics_port);

}  // namespace beamwright::e2e

#endif  // BEAMWRIGHT_TESTS_E2E_SCRAPED_METRICS_H_
