#include "client/cli/line_chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace beamwright::client {
namespace {

constexpr double kWidth = 720, kHeight = 320;
constexpr double kLeft = 70, kRight = 20, kTop = 16, kBottom = 46;
constexpr size_t kColours = 8;

// One axis with its place on the page.
class Scale {
 public:
  Scale(const ChartAxis& axis, double page_low, double page_high)
      : axis_(axis), page_low_(page_low), page_high_(page_high) {}

  bool Shows(double value) const {
    return std::isfinite(value) && (!axis_.logarithmic || value > 0);
  }

  void Include(double value) {
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
  }

  // After the last Include.
  void Settle() {
    if (low_ > high_) {
      low_ = axis_.logarithmic ? 1 : 0;
      high_ = 10;
    }
    if (axis_.logarithmic && axis_.ticks.empty()) {
      low_ = std::pow(10, std::floor(std::log10(low_)));
      high_ = std::pow(10, std::ceil(std::log10(high_ * 1.0001)));
    } else if (!axis_.logarithmic) {
      low_ = std::min(low_, 0.0);
      const double step = Step();
      high_ = std::max(step, std::ceil(high_ / step) * step);
    }
  }

  double At(double value) const {
    const double share = axis_.logarithmic ? std::log(value / low_) / std::log(high_ / low_)
                                           : (value - low_) / (high_ - low_);
    return page_low_ + (std::isfinite(share) ? share : 0) * (page_high_ - page_low_);
  }

  std::vector<std::pair<double, std::string>> Ticks() const {
    std::vector<std::pair<double, std::string>> ticks;
    if (!axis_.ticks.empty()) {
      std::copy_if(axis_.ticks.begin(), axis_.ticks.end(), std::back_inserter(ticks),
                   [&](const auto& tick) { return tick.first >= low_ && tick.first <= high_; });
      return ticks;
    }
    for (double value = low_; value <= high_ * 1.0001 && ticks.size() < 50;
         value = axis_.logarithmic ? value * 10 : value + Step()) {
      ticks.emplace_back(value, absl::StrFormat("%.6g", value));
    }
    return ticks;
  }

 private:
  // Of round numbers, five to ten of them.
  double Step() const {
    const double rough = std::max(high_ - low_, 1e-9) / 5;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    const double times = rough / power;
    return power * (times < 2 ? 1 : times < 5 ? 2 : 5);
  }

  const ChartAxis& axis_;
  const double page_low_, page_high_;
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
};

std::string Grid(const Chart& chart, const Scale& x, const Scale& y) {
  std::string svg;
  for (const auto& [value, text] : x.Ticks()) {
    absl::StrAppendFormat(&svg,
                          "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/><text x=\"%.1f\" y=\"%.1f\" "
                          "text-anchor=\"middle\">%s</text>\n",
                          x.At(value), kTop, kHeight - kBottom, x.At(value), kHeight - kBottom + 16,
                          HtmlEscape(text));
  }
  for (const auto& [value, text] : y.Ticks()) {
    absl::StrAppendFormat(&svg,
                          "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/><text x=\"%.1f\" y=\"%.1f\" "
                          "text-anchor=\"end\">%s</text>\n",
                          kLeft, y.At(value), kWidth - kRight, kLeft - 6, y.At(value) + 4,
                          HtmlEscape(text));
  }
  absl::StrAppendFormat(&svg, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
                        (kLeft + kWidth - kRight) / 2, kHeight - 8, HtmlEscape(chart.x.label));
  absl::StrAppendFormat(&svg,
                        "<text transform=\"translate(14 %.1f) rotate(-90)\" "
                        "text-anchor=\"middle\">%s</text>\n",
                        (kTop + kHeight - kBottom) / 2, HtmlEscape(chart.y.label));
  return svg;
}

std::string LineSvg(const ChartLine& line, size_t colour, bool marks, const Scale& x,
                    const Scale& y) {
  std::string path, dots;
  for (const auto& [px, py] : line.points) {
    if (!x.Shows(px) || !y.Shows(py)) {
      continue;
    }
    absl::StrAppendFormat(&path, "%s%.1f %.1f", path.empty() ? "M" : "L", x.At(px), y.At(py));
    if (marks) {
      absl::StrAppendFormat(&dots,
                            "<circle class=\"line%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>%s: "
                            "%.6g, %.6g</title></circle>\n",
                            colour, x.At(px), y.At(py), HtmlEscape(line.name), px, py);
    }
  }
  return absl::StrFormat("<path class=\"line line%d\" d=\"%s\"/>\n%s", colour, path, dots);
}

}  // namespace

std::string HtmlEscape(absl::string_view text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string ChartSvg(const Chart& chart) {
  Scale x(chart.x, kLeft, kWidth - kRight);
  Scale y(chart.y, kHeight - kBottom, kTop);
  for (const ChartLine& line : chart.lines) {
    for (const auto& [px, py] : line.points) {
      if (x.Shows(px) && y.Shows(py)) {
        x.Include(px);
        y.Include(py);
      }
    }
  }
  x.Settle();
  y.Settle();
  std::string svg =
      absl::StrFormat("<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"%s\">\n", kWidth,
                      kHeight, HtmlEscape(chart.title));
  absl::StrAppend(&svg, Grid(chart, x, y));
  for (size_t i = 0; i < chart.lines.size(); ++i) {
    absl::StrAppend(&svg, LineSvg(chart.lines[i], i % kColours, chart.marks, x, y));
  }
  return svg + "</svg>\n";
}

}  // namespace beamwright::client
