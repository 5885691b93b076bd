#include <exception>
#include <iostream>

#include "tools/graph_tool.h"

int main(int argc, char** argv) {
  try {
    return beamwright::tools::RunGraphTool(argc, argv, std::cout, std::cerr);
  } catch (const std::exception& error) {  // out of memory, or from a library
    std::cerr << "beamwright-graph: " << error.what() << "\n";
    return 1;
  }
}
