// The dashboard's page, its script and its style, from the files of this folder.
#pragma once

#include <string>

namespace sullae::dashboard {

const std::string& page_html();
const std::string& page_script();
const std::string& page_style();
const std::string& page_icon();

}  // namespace sullae::dashboard
