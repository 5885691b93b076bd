// A suite of conformance cases as generate.py writes it: graphs with inputs and with what another
// implementation computed from them (docs/conformance.md, 'Suites').
#ifndef BEAMWRIGHT_TESTS_CONFORMANCE_SUITE_H_
#define BEAMWRIGHT_TESTS_CONFORMANCE_SUITE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace beamwright::ops {

struct Case {
  std::string name;
  std::string folder;    // model.xml or model.onnx; inputs_<n>.npz and outputs_<n>.npz, n from 0
  double tolerance = 0;  // see Compare
  std::vector<std::string> operators;  // as the file names them, bodies included
};

// The cases that `suite`/manifest.tsv lists, one a line: name, tolerance, operators by commas. A
// case's folder is named as the case is. InvalidArgument names the line that is wrong.
absl::StatusOr<std::vector<Case>> ReadSuite(const std::string& suite);

// Cases that are known not to pass, and operators that no case can have. A file of lines "operator
// NAME REASON", "case PATTERN REASON" (a shell's pattern for the case's name) and "uncovered NAME
// REASON"; empty lines and those that begin with # are for people.
class SkipList {
 public:
  // The empty path: nothing is skipped. InvalidArgument names any other line.
  static absl::StatusOr<SkipList> Read(const std::string& path);

  // Why `test` is skipped; empty if it is not.
  std::string ReasonFor(const Case& test) const;
  // The names of lines that match none of the cases: they are out of date, or misspelt.
  std::vector<std::string> Unused(const std::vector<Case>& cases) const;
  bool ListsAsUncovered(const std::string& op) const;

 private:
  struct Line {
    std::string kind;
    std::string name;
    std::string reason;
  };
  static bool Matches(const Line& line, const Case& test);

  std::vector<Line> lines_;
};

// The operators of the registry (ops/loop/operators.h) that none of the cases has. Names are
// compared as the importer does: without case, TensorIterator as Loop.
std::vector<std::string> UncoveredOperators(const std::vector<Case>& cases);

// Imports, compiles and runs the graph on each of its data sets and compares every output; the
// first difference is the error.
absl::Status RunCase(const Case& test);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_TESTS_CONFORMANCE_SUITE_H_
