#include "ops/kernels/onednn_panels.h"

#include <algorithm>
#include <cstring>

#include "ops/kernels/onednn_engine.h"

namespace beamwright::ops {
namespace {

using dnnl::memory;

memory::desc Dense(int64_t rows, int64_t columns) {
  return {{rows, columns}, memory::data_type::f32, memory::format_tag::ab};
}

}  // namespace

std::unique_ptr<OneDnnPanels> OneDnnPanels::Create(absl::Span<const float> weight, int64_t depth,
                                                   int64_t columns) {
  if (depth == 0 || columns == 0) {
    return nullptr;
  }
  auto panels = std::unique_ptr<OneDnnPanels>(new OneDnnPanels());
  const OneThread one_thread;
  try {
    panels->Build(weight, depth, columns);
    panels->SelfCheck(depth, columns);
  } catch (const dnnl::error&) {
    return nullptr;  // no kernel for this machine: the caller has its own
  }
  return panels->tiles_.empty() ? nullptr : std::move(panels);
}

std::vector<OneDnnPanels::Primitive> OneDnnPanels::MakePrimitives(int64_t depth, int64_t width) {
  std::vector<Primitive> result(tiles_.size());
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  memory::desc weight({depth, width}, memory::data_type::f32, memory::format_tag::any);
  // The largest tile chooses the packing, the others take it as it is.
  for (size_t i = tiles_.size(); i-- > 0;) {
    const memory::desc a = Dense(tiles_[i], depth);
    const memory::desc out = Dense(tiles_[i], width);
    try {
      const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, weight, out), attributes,
                                                     OneDnnEngine());
      const std::string name = description.impl_info_str();
      if (name.find("ref") != std::string::npos) {
        continue;
      }
      kernel_ = kernel_.empty() ? name : kernel_;
      weight = description.weights_desc();
      result[i] = {dnnl::matmul(description), a, weight, out, description.scratchpad_desc()};
    } catch (const dnnl::error&) {
      continue;  // this tile is not offered for this packing
    }
  }
  return result;
}

void OneDnnPanels::Build(absl::Span<const float> weight, int64_t depth, int64_t columns) {
  tiles_ = {1, 8, 16, 32, 64};
  std::vector<int64_t> widths;  // of each kind
  for (int64_t first = 0; first < columns; first += kPanelColumns) {
    const int64_t width = std::min(kPanelColumns, columns - first);
    const auto known = std::find(widths.begin(), widths.end(), width);
    Panel panel;
    panel.kind = static_cast<size_t>(known - widths.begin());
    if (known == widths.end()) {
      widths.push_back(width);
      primitives_.push_back(MakePrimitives(depth, width));
      // A tile must serve every panel; those that do not are dropped from all.
      for (size_t i = tiles_.size(); i-- > 0;) {
        if (!primitives_.back()[i].matmul) {
          tiles_.erase(tiles_.begin() + static_cast<int64_t>(i));
          for (auto& kind : primitives_) {
            kind.erase(kind.begin() + static_cast<int64_t>(i));
          }
        }
      }
      if (tiles_.empty()) {
        return;
      }
    }
    // A strided view of the panel's columns, reordered into the packing.
    const memory::desc plain({depth, width}, memory::data_type::f32, memory::dims{columns, 1});
    memory source(plain, OneDnnEngine(), const_cast<float*>(weight.data() + first));
    panel.weight = memory(primitives_[panel.kind].back().weight, OneDnnEngine());
    dnnl::reorder(source, panel.weight).execute(OneDnnStream(), source, panel.weight);
    OneDnnStream().wait();
    panels_.push_back(std::move(panel));
  }
}

size_t OneDnnPanels::TileFor(int64_t rows) const {
  const auto above = std::lower_bound(tiles_.begin(), tiles_.end(), rows);
  return above != tiles_.end() ? static_cast<size_t>(above - tiles_.begin()) : tiles_.size() - 1;
}

bool OneDnnPanels::Run(size_t tile, int64_t panel, const float* a, float* out) const {
  const OneThread one_thread;
  const Panel& weights = panels_[static_cast<size_t>(panel)];
  const Primitive& primitive = primitives_[weights.kind][tile];
  void* const scratch = OneDnnBuffer(0, primitive.scratch.get_size());
  try {
    primitive.matmul.execute(
        OneDnnStream(),
        {{DNNL_ARG_SRC, memory(primitive.a, OneDnnEngine(), const_cast<float*>(a))},
         {DNNL_ARG_WEIGHTS, weights.weight},
         {DNNL_ARG_DST, memory(primitive.out, OneDnnEngine(), out)},
         {DNNL_ARG_SCRATCHPAD, memory(primitive.scratch, OneDnnEngine(), scratch)}});
    return true;
  } catch (const dnnl::error&) {
    return false;
  }
}

void OneDnnPanels::SelfCheck(int64_t depth, int64_t columns) {
  if (tiles_.empty()) {
    return;
  }
  const int64_t most = tiles_.back();
  // The probe row stands at every position at once: rows are computed by position, not by content.
  std::vector<float> a(static_cast<size_t>(most * depth));
  uint32_t state = 12345;
  for (int64_t i = 0; i < most * depth; ++i) {
    state = state * 1664525u + 1013904223u;
    a[static_cast<size_t>(i)] = i < depth ? static_cast<float>(state >> 8) / 8388608.0f - 1.0f
                                          : a[static_cast<size_t>(i - depth)];
  }
  std::vector<bool> passes(tiles_.size(), true);
  std::vector<float> out(static_cast<size_t>(most * kPanelColumns));
  std::vector<bool> checked(primitives_.size(), false);
  for (size_t panel = 0; panel < panels_.size(); ++panel) {
    const size_t kind = panels_[panel].kind;
    if (checked[kind]) {
      continue;
    }
    checked[kind] = true;
    const int64_t width =
        std::min(kPanelColumns, columns - static_cast<int64_t>(panel) * kPanelColumns);
    const size_t row_bytes = static_cast<size_t>(width) * sizeof(float);
    std::vector<float> expected;
    for (size_t tile = tiles_.size(); tile-- > 0;) {
      passes[tile] = passes[tile] && Run(tile, static_cast<int64_t>(panel), a.data(), out.data());
      if (expected.empty()) {
        expected.assign(out.begin(), out.begin() + width);
      }
      for (int64_t row = 0; row < tiles_[tile] && passes[tile]; ++row) {
        passes[tile] = std::memcmp(out.data() + row * width, expected.data(), row_bytes) == 0;
      }
      if (!passes[tile] && tile + 1 == tiles_.size()) {
        tiles_.clear();  // the tile that the others are compared with is no reference
        return;
      }
    }
  }
  for (size_t tile = tiles_.size(); tile-- > 0;) {
    if (!passes[tile]) {
      tiles_.erase(tiles_.begin() + static_cast<int64_t>(tile));
      for (auto& kind : primitives_) {
        kind.erase(kind.begin() + static_cast<int64_t>(tile));
      }
    }
  }
}

}  // namespace beamwright::ops
