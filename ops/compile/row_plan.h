// RowPlan: how a step runs over rows of several requests at once. Most instructions run over all
// rows; those that touch a request's own extents (attention over its source) run request by
// request, on that request's rows and its values, and what they yield is joined again as soon as
// its shape is the same for all (docs/architecture.md, 'Rows').
#ifndef BEAMWRIGHT_OPS_COMPILE_ROW_PLAN_H_
#define BEAMWRIGHT_OPS_COMPILE_ROW_PLAN_H_

#include <string>
#include <vector>

#include "ops/compile/program.h"
#include "ops/compile/scopes.h"

namespace beamwright::ops {

struct RowPlan {
  // A value that an instruction inside a per-request segment reads.
  enum class Source {
    kConstant,  // or absent
    kRows,      // the request's rows of a value over all rows
    kRequest,   // a value of the request, held once
    kMeasure,   // a value without rows, held once: the length of its source, for example
    kLocal,     // computed by the segment for this request
  };
  struct Segment {
    bool per_request = false;
    std::vector<int> instructions;  // indices into the program
    std::vector<int> joined;        // per_request: slots to join over all rows at its end
  };

  // False: rows are run one at a time, because `reason` could not be shown to be separable.
  bool separable = true;
  std::string reason;
  std::vector<Segment> segments;
  std::vector<Source> sources;    // by slot: where a per-request instruction finds it
  std::vector<bool> is_rows;      // by slot: whether it has a part for each row
  std::vector<int> row_axes;      // by slot: the axis that counts rows
  std::vector<int64_t> factors;   // by slot: extent of that axis per row
  std::vector<bool> per_request;  // by instruction
  std::vector<bool> broadcasts;   // by instruction: request values need not be repeated per row
  // By instruction: it takes the number of the step from the state that counts it (FirstRow), one
  // for all rows of a request.
  std::vector<bool> takes_step_number;
};

// Plans the row-scope instructions of `program` (compiled from the loop's body).
RowPlan PlanRows(const Loop& loop, const GraphInfo& body_info, const OperatorSet& operators,
                 const std::vector<Scope>& scopes, const Program& program);

// Turns a plan into the one that runs rows one at a time.
void MakeRowByRow(const Loop& loop, const Program& program, std::string reason, RowPlan& plan);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_ROW_PLAN_H_
