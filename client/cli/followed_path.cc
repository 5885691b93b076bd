#include "client/cli/followed_path.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace beamwright::client {
namespace {

struct Node {
  const v1::TraceCandidate* candidate;
  size_t before;  // in the nodes of the step before
};

// By row: the node of the step before that it continues.
using Rows = std::map<int, size_t>;

std::vector<Node> NodesOf(const v1::TraceStep& step, int32_t token, bool first, const Rows& rows) {
  std::vector<Node> nodes;
  for (const v1::TraceCandidate& candidate : step.candidates()) {
    const auto row = rows.find(candidate.row());
    if (candidate.token() == token && (first || row != rows.end())) {
      nodes.push_back({&candidate, first ? 0 : row->second});
    }
  }
  return nodes;
}

Rows RowsAfter(const std::vector<Node>& nodes) {
  Rows rows;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].candidate->fate() == v1::TRACE_FATE_KEPT) {
      rows.emplace(nodes[i].candidate->next_row(), i);
    }
  }
  return rows;
}

// The path prints the candidate of greater worth.
auto Worth(const v1::TraceCandidate& candidate, int answer) {
  return std::tuple(answer > 0 && candidate.answer() == answer, candidate.answer() > 0,
                    candidate.fate() == v1::TRACE_FATE_KEPT, candidate.has_score(),
                    candidate.rank_score());
}

}  // namespace

FollowedPath Follow(const v1::SearchTrace& trace, absl::Span<const int32_t> tokens, int answer) {
  FollowedPath path;
  std::vector<std::vector<Node>> steps;
  Rows rows;
  const size_t length = std::min(tokens.size(), static_cast<size_t>(trace.steps_size()));
  for (size_t t = 0; t < length && (t == 0 || !rows.empty()); ++t) {
    std::vector<Node> nodes = NodesOf(trace.steps(static_cast<int>(t)), tokens[t], t == 0, rows);
    if (nodes.empty()) {
      path.unlisted = true;
      break;
    }
    rows = RowsAfter(nodes);
    steps.push_back(std::move(nodes));
  }
  if (steps.empty()) {
    return path;
  }
  const auto& last = steps.back();
  size_t at = static_cast<size_t>(std::max_element(last.begin(), last.end(),
                                                   [&](const Node& a, const Node& b) {
                                                     return Worth(*a.candidate, answer) <
                                                            Worth(*b.candidate, answer);
                                                   }) -
                                  last.begin());
  for (auto nodes = steps.rbegin(); nodes != steps.rend(); ++nodes) {
    path.candidates.push_back((*nodes)[at].candidate);
    at = (*nodes)[at].before;
  }
  std::reverse(path.candidates.begin(), path.candidates.end());
  return path;
}

std::vector<int32_t> TokensBefore(const v1::SearchTrace& trace, int step, int row) {
  std::vector<int32_t> tokens;
  for (; step > 0 && row >= 0 && row < trace.steps(step).rows_size(); --step) {
    tokens.push_back(trace.steps(step).rows(row).token());
    row = trace.steps(step).rows(row).parent();
  }
  std::reverse(tokens.begin(), tokens.end());
  return tokens;
}

const v1::TraceCandidate* LastKeptBefore(const v1::TraceStep& step,
                                         const v1::TraceCandidate& dropped) {
  const v1::TraceCandidate* kept = nullptr;
  for (const v1::TraceCandidate& candidate : step.candidates()) {
    if (&candidate == &dropped) {
      break;
    }
    if (candidate.rank() == 1) {
      kept = nullptr;  // candidates stand by group, each counted from 1
    }
    if (candidate.fate() == v1::TRACE_FATE_KEPT) {
      kept = &candidate;
    }
  }
  return kept;
}

}  // namespace beamwright::client
