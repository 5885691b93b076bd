// TagRequest: a source whose positions get one label each. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_FRAMES_TAG_REQUEST_H_
#define BEAMWRIGHT_ENGINE_FRAMES_TAG_REQUEST_H_

#include <optional>
#include <vector>

#include "engine/frames/column_request.h"
#include "engine/search/frames/tag_search.h"

namespace beamwright::engine {

struct TagRequest : ColumnRequest {
  std::optional<search::TagSearch> search;
  std::optional<search::TagLattice> lattice;  // where targets are given

  void StartSearch() override { search.emplace(plan, transitions()); }
  search::FrameSearch* frame_search() override { return search.has_value() ? &*search : nullptr; }
  absl::Status StartScoring() override;
  bool is_scored() const override { return lattice->is_ready(); }
  std::vector<search::FrameScore> Scores() const override;
  absl::Status Advance() override;

 private:
  // Positions beyond those of an unpadded source are cut off.
  absl::Status TakeFrames(const ops::Tensor& output) override;
  const search::TagTransitions* transitions() const;
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_FRAMES_TAG_REQUEST_H_
