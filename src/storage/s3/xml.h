// What S3 answers.
#pragma once

#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <sstream>
#include <string>

namespace sullae::storage {

/// Throws boost::property_tree::ptree_error.
inline boost::property_tree::ptree parse_xml(const std::string& text) {
  boost::property_tree::ptree tree;
  std::istringstream stream(text);
  boost::property_tree::read_xml(stream, tree);
  return tree;
}

}  // namespace sullae::storage
