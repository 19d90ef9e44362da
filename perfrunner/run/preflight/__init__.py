"""Before anything is measured: hosts opened, described and judged; variants built, deployed and proved."""
