# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Makes good what scdoc 1.11 writes: it turns hyphenation off before .TH, which turns it on again,
# so that names of functions are broken; and it begins paragraphs that have no text. After an
# indented part a paragraph begins outside of it.

/^\.PP?$/ { paragraph = 1; next }
/^\.S[HS] / { print; paragraph = 0; heading = 1; next }
/^\.RE$/ { print; next }

paragraph && !heading { print ".P" }
{ print; paragraph = 0; heading = 0 }
/^\.TH / { print ".nh" }
