#include "ops/kernels/onednn_convolution.h"

#ifdef BEAMWRIGHT_NO_ONEDNN

namespace beamwright::ops {

struct OneDnnConvolutions::Filters {};

OneDnnConvolutions::OneDnnConvolutions() = default;
OneDnnConvolutions::~OneDnnConvolutions() = default;

std::shared_ptr<const OneDnnConvolution> OneDnnConvolutions::Find(const ConvolutionGeometry&,
                                                                  const float*) {
  return nullptr;
}

}  // namespace beamwright::ops

#else

#include <algorithm>
#include <new>
#include <string>

#include "ops/kernels/onednn_engine.h"

namespace beamwright::ops {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

memory::desc F32(const memory::dims& dims, Tag tag) { return {dims, memory::data_type::f32, tag}; }

// The same data in the file's order of axes.
memory::desc Dense(const memory::dims& dims) {
  memory::dims strides(dims.size(), 1);
  for (size_t axis = dims.size() - 1; axis-- > 0;) {
    strides[axis] = strides[axis + 1] * dims[axis + 1];
  }
  return {dims, memory::data_type::f32, strides};
}

// A geometry as oneDNN sees it: two spatial axes, or three where the first is not trivial.
struct Problem {
  memory::dims source, filter, result, strides, dilations, pads_begin, pads_end;

  explicit Problem(const ConvolutionGeometry& geometry)
      : source{1, geometry.groups * geometry.in_channels},
        filter{geometry.out_channels, geometry.in_channels},
        result{1, geometry.groups * geometry.out_channels} {
    if (geometry.groups > 1) {
      filter.insert(filter.begin(), geometry.groups);
    }
    for (size_t i = geometry.axes[0] == WindowAxis() ? 1 : 0; i < 3; ++i) {
      const WindowAxis& axis = geometry.axes[i];
      source.push_back(axis.in);
      filter.push_back(axis.kernel);
      result.push_back(axis.out);
      strides.push_back(axis.stride);
      dilations.push_back(axis.dilation - 1);
      pads_begin.push_back(axis.pad_begin);
      pads_end.push_back(axis.pad_end);
    }
  }
};

// oneDNN's word for it, which would pass for a lack of a kernel or for a fault.
void ThrowIfOutOfMemory(const dnnl::error& error) {
  if (error.status == dnnl_out_of_memory) {
    throw std::bad_alloc();
  }
}

class Convolution final : public OneDnnConvolution {
 public:
  // `filters`: packings made so far, added to. Throws dnnl::error where oneDNN has no kernel.
  Convolution(const Problem& problem, const float* filter, std::vector<memory>& filters)
      : source_(Dense(problem.source)), result_(Dense(problem.result)) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::convolution_forward::desc description(
        dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
        F32(problem.source, Tag::any), F32(problem.filter, Tag::any), F32(problem.result, Tag::any),
        problem.strides, problem.dilations, problem.pads_begin, problem.pads_end);
    const dnnl::convolution_forward::primitive_desc chosen(description, attributes, OneDnnEngine());
    is_reference_ = std::string(chosen.impl_info_str()).find("ref") != std::string::npos;
    if (is_reference_) {
      return;
    }
    convolution_ = dnnl::convolution_forward(chosen);
    packed_source_ = chosen.src_desc();
    packed_result_ = chosen.dst_desc();
    scratch_ = chosen.scratchpad_desc();
    if (packed_source_ != source_) {
      pack_ = dnnl::reorder({OneDnnEngine(), source_, OneDnnEngine(), packed_source_});
    }
    if (packed_result_ != result_) {
      unpack_ = dnnl::reorder({OneDnnEngine(), packed_result_, OneDnnEngine(), result_});
    }
    const auto known = std::find_if(filters.begin(), filters.end(), [&](const memory& packed) {
      return packed.get_desc() == chosen.weights_desc();
    });
    if (known != filters.end()) {
      filter_ = *known;
      return;
    }
    memory plain(Dense(problem.filter), OneDnnEngine(), const_cast<float*>(filter));
    filter_ = memory(chosen.weights_desc(), OneDnnEngine());
    dnnl::reorder(plain, filter_).execute(OneDnnStream(), plain, filter_);
    OneDnnStream().wait();
    filters.push_back(filter_);
  }

  bool is_reference() const { return is_reference_; }

  bool Run(const float* in, float* out) const override {
    const OneThread one_thread;
    try {
      memory source(source_, OneDnnEngine(), const_cast<float*>(in));
      memory result(result_, OneDnnEngine(), out);
      if (pack_) {
        memory packed(packed_source_, OneDnnEngine(), OneDnnBuffer(1, packed_source_.get_size()));
        pack_.execute(OneDnnStream(), {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, packed}});
        source = packed;
      }
      memory packed_result = unpack_ ? memory(packed_result_, OneDnnEngine(),
                                              OneDnnBuffer(2, packed_result_.get_size()))
                                     : result;
      convolution_.execute(OneDnnStream(),
                           {{DNNL_ARG_SRC, source},
                            {DNNL_ARG_WEIGHTS, filter_},
                            {DNNL_ARG_DST, packed_result},
                            {DNNL_ARG_SCRATCHPAD, memory(scratch_, OneDnnEngine(),
                                                         OneDnnBuffer(0, scratch_.get_size()))}});
      if (unpack_) {
        unpack_.execute(OneDnnStream(), {{DNNL_ARG_FROM, packed_result}, {DNNL_ARG_TO, result}});
      }
      OneDnnStream().wait();
      return true;
    } catch (const dnnl::error& error) {
      ThrowIfOutOfMemory(error);
      return false;
    }
  }

 private:
  memory::desc source_, result_, packed_source_, packed_result_, scratch_;
  dnnl::convolution_forward convolution_;
  dnnl::reorder pack_, unpack_;  // null where oneDNN takes the order of the file
  memory filter_;
  bool is_reference_ = false;
};

}  // namespace

struct OneDnnConvolutions::Filters {
  std::vector<memory> packed;
};

OneDnnConvolutions::OneDnnConvolutions() : filters_(std::make_unique<Filters>()) {}
OneDnnConvolutions::~OneDnnConvolutions() = default;

std::shared_ptr<const OneDnnConvolution> OneDnnConvolutions::Find(
    const ConvolutionGeometry& geometry, const float* filter) {
  const absl::MutexLock lock(&mutex_);
  const auto known = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.geometry == geometry; });
  if (known != entries_.end()) {
    std::rotate(entries_.begin(), known, known + 1);
    return entries_.front().convolution;
  }
  std::shared_ptr<const OneDnnConvolution> result;
  try {
    const OneThread one_thread;
    auto made = std::make_shared<const Convolution>(Problem(geometry), filter, filters_->packed);
    if (!made->is_reference()) {
      result = std::move(made);
    }
  } catch (const dnnl::error& error) {
    ThrowIfOutOfMemory(error);
    // No kernel for this geometry or machine: the caller has its own.
  }
  if (entries_.size() == kMost) {
    entries_.pop_back();
  }
  entries_.insert(entries_.begin(), {geometry, result});
  return result;
}

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_NO_ONEDNN
